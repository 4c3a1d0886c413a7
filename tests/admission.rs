//! How many connections one network address may open, from an address that is not loopback.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use oip_host::client::{Client, Options, Seal, Socket, Target};
use oip_host::config::Config;

use crate::common::{Person, TestHost, eventually};

/// This machine's own address on a network. Nothing is sent to find it out.
fn outward() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_loopback() && !ip.is_unspecified()).then_some(ip)
}

/// A host on every interface and where a peer on the network finds it; `None` without a network.
async fn reachable(configure: impl FnOnce(&mut Config)) -> Option<(TestHost, Target)> {
    let Some(ip) = outward() else {
        eprintln!("this machine has no network address: nothing to test");
        return None;
    };
    let host = TestHost::with(|config| {
        config.bind = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        configure(config);
    })
    .await;
    let at = SocketAddr::new(ip, host.socket().port());
    let target = Target::parse(&at.to_string()).unwrap();
    Some((host, target))
}

async fn refusal(target: &Target) -> String {
    match Socket::open(target).await {
        Ok(_) => panic!("the connection was let in"),
        Err(refused) => refused.to_string(),
    }
}

#[tokio::test]
async fn an_address_has_so_many_sockets_without_connect() {
    let prepared = reachable(|config| config.limits.unauthenticated_sockets = 3).await;
    let Some((host, target)) = prepared else {
        return;
    };
    let mut idle = Vec::new();
    for _ in 0..2 {
        idle.push(Socket::open(&target).await.unwrap());
    }
    let options = Options {
        seal: Seal::Never,
        host: Some(host.address()),
        ..Options::default()
    };
    // Whoever has authenticated does not count.
    let person = Person::new().identity();
    let _client = Client::connect(&target, &person, options).await.unwrap();
    idle.push(Socket::open(&target).await.unwrap());
    let why = refusal(&target).await;
    assert!(why.contains("3 without CONNECT are allowed"), "{why}");
    // And a socket that goes makes room.
    drop(idle.pop());
    eventually("the host to notice", || host.host.load().1 == 3).await;
    Socket::open(&target).await.unwrap();
}

#[tokio::test]
async fn an_address_opens_so_many_connections_a_second() {
    let prepared = reachable(|config| config.limits.connections_per_second = 2).await;
    let Some((_host, target)) = prepared else {
        return;
    };
    let mut let_in = Vec::new();
    let why = loop {
        match Socket::open(&target).await {
            Ok(socket) => let_in.push(socket),
            Err(refused) => break refused.to_string(),
        }
        assert!(let_in.len() < 100, "nothing was refused");
    };
    assert!(let_in.len() >= 2);
    assert!(why.contains("2 a second are allowed"), "{why}");
}
