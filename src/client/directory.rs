//! From an address to a place: a directory lists an agent's endpoints (fact F82), and the host that
//! answers there proves by its own `/info`, and then by its signature, that it is the one.

use crate::identity::Address;
use crate::wire::json::{Object, Raw};

use super::target::get;
use super::{ClientError, Target};

/// Where a host of this machine is found without a directory.
const HERE: &str = "127.0.0.1:8000";

impl Target {
    /// Find the host with this address: at the endpoints that `directory` (`http://HOST:PORT`) lists,
    /// closest first, or on this machine's port 8000 if there is no directory.
    ///
    /// # Errors
    /// The directory cannot be asked, or none of the endpoints is that host; the text says what
    /// happened at each.
    pub async fn find(address: &Address, directory: Option<&str>) -> Result<Self, ClientError> {
        let endpoints = match directory {
            Some(directory) => listed(address, directory).await?,
            None => vec![HERE.to_owned()],
        };
        let mut tried = Vec::new();
        for endpoint in endpoints {
            match answers(&endpoint, address).await {
                Ok(target) => return Ok(target),
                Err(why) => tried.push(format!("{endpoint}: {why}")),
            }
        }
        let tried = if tried.is_empty() {
            "no endpoint is listed".to_owned()
        } else {
            tried.join("; ")
        };
        let hint = if directory.is_none() {
            " (without --directory only this machine is asked)"
        } else {
            ""
        };
        Err(ClientError::Target(format!(
            "{}: not found: {tried}{hint}",
            address.short()
        )))
    }
}

/// The endpoints a directory has for an address, each once, closest first.
async fn listed(address: &Address, directory: &str) -> Result<Vec<String>, ClientError> {
    let at = Target::parse(directory)?;
    let body = get(&at, &format!("/api/agents/{address}")).await?;
    let endpoints = Object::parse(body.trim())
        .ok()
        .and_then(|entry| entry.get("endpoints").and_then(Raw::as_array))
        .ok_or_else(|| ClientError::NotAHost {
            at: at.authority().to_owned(),
            reason: "its answer lists no endpoints: it is no directory".to_owned(),
        })?;
    let mut places: Vec<String> = Vec::new();
    for endpoint in endpoints.into_iter().filter_map(Raw::as_str) {
        // A host announces http:// and ws:// spellings of the same place.
        let place = match Target::parse(&endpoint) {
            Ok(target) => target.authority().to_owned(),
            Err(_) => endpoint.into_owned(),
        };
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places.sort_by_key(|place| closeness(place));
    Ok(places)
}

/// 0 this machine, 1 this network, 2 anywhere.
fn closeness(place: &str) -> u8 {
    let Ok(target) = Target::parse(place) else {
        return 2;
    };
    if target.is_loopback() {
        return 0;
    }
    let private = match target.ip() {
        Some(std::net::IpAddr::V4(ip)) => ip.is_private() || ip.is_link_local(),
        Some(std::net::IpAddr::V6(ip)) => ip.is_unique_local() || ip.is_unicast_link_local(),
        None => false,
    };
    if private { 1 } else { 2 }
}

/// The endpoint, if the host with that address answers there.
async fn answers(endpoint: &str, address: &Address) -> Result<Target, ClientError> {
    let target = Target::parse(endpoint)?;
    let found = target.address().await?;
    if found == *address {
        return Ok(target);
    }
    Err(ClientError::NotAHost {
        at: endpoint.to_owned(),
        reason: format!("{} answers there", found.short()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_comes_before_this_network_before_the_world() {
        let mut places = [
            "203.0.113.5:1",
            "192.168.1.2:1",
            "[fd00::1]:1",
            "127.0.0.1:1",
            "example.org:1",
        ];
        places.sort_by_key(|place| closeness(place));
        assert_eq!(
            places,
            [
                "127.0.0.1:1",
                "192.168.1.2:1",
                "[fd00::1]:1",
                "203.0.113.5:1",
                "example.org:1"
            ]
        );
    }
}
