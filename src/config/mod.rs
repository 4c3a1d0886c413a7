//! stub
#![allow(missing_docs)]
use std::time::Duration;
use crate::trust::Policy;
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Replay { Sqlite, Memory }
#[derive(Debug, Clone, Default)]
pub struct Permissions;
impl Permissions { pub fn tools(&self)->Vec<(&str,bool)>{vec![]} }
#[derive(Debug, Clone)]
pub struct Limits { pub connections_per_second:u32, pub unauthenticated_sockets:usize, pub unauthenticated_frame:usize, pub unauthenticated_total:usize, pub frame:usize, pub first_frame_timeout:Duration, pub turn_log_bytes:usize, pub exec_concurrency:usize }
#[derive(Debug, Clone)]
pub struct Config { pub name:String, pub trust:Policy, pub port:u16, pub bind:std::net::IpAddr, pub replay:Replay, pub result_ttl:Duration, pub session_idle:Duration, pub turn_timeout:Duration, pub drain_timeout:Duration, pub permissions:Permissions, pub limits:Limits }
impl Default for Config { fn default()->Self { Self{ name:"stub-agent".into(), trust:Policy::Careful, port:8000, bind:std::net::IpAddr::from([127,0,0,1]), replay:Replay::Sqlite, result_ttl:Duration::from_secs(86400), session_idle:Duration::from_secs(600), turn_timeout:Duration::from_secs(3600), drain_timeout:Duration::from_secs(10), permissions:Permissions, limits:Limits{connections_per_second:64,unauthenticated_sockets:1024,unauthenticated_frame:32<<20,unauthenticated_total:256<<20,frame:256<<20,first_frame_timeout:Duration::from_secs(10),turn_log_bytes:32<<20,exec_concurrency:64}}}}
