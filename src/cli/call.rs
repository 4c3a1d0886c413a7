//! `oip call`: one tool of an agent, and what it answers.

use std::process::ExitCode;

use oip_host::client::{Client, Options};
use serde_json::{Map, Value};

use super::talk::{caller, place, refusal};
use super::{CallArgs, CannotStart};

pub(crate) async fn run(args: CallArgs) -> anyhow::Result<ExitCode> {
    let (target, host) = place(&args.target, args.directory.as_deref()).await?;
    let values = arguments(&args.args).map_err(CannotStart)?;
    let identity = caller(&args.project)?;
    let options = Options {
        host,
        ..Options::default()
    };
    let connected = Client::connect(&target, &identity, options).await;
    let mut client = connected.map_err(|error| refusal(&error))?;
    let outcome = client.exec(&args.tool, values).await?;
    client.close().await;
    if args.json {
        println!("{}", outcome.frame);
    } else {
        match &outcome.result {
            Ok(text) => println!("{text}"),
            Err(why) => eprintln!("oip: {}: {}", args.tool, super::talk::shown(why)),
        }
    }
    Ok(match outcome.result {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

/// `name=value`: the value is JSON if it is JSON, else text.
fn arguments(given: &[String]) -> Result<Map<String, Value>, String> {
    given
        .iter()
        .map(|argument| {
            let (name, value) = argument
                .split_once('=')
                .filter(|(name, _)| !name.is_empty())
                .ok_or_else(|| format!("{argument}: arguments are written name=value"))?;
            let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
            Ok((name.to_owned(), value))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_is_json_or_text() {
        let given = [
            "n=5",
            "text=hi there",
            "list=[1,2]",
            "quoted=\"5\"",
            "eq=a=b",
            "empty=",
        ];
        let read = arguments(&given.map(String::from)).unwrap();
        let expected = json!({
            "n": 5, "text": "hi there", "list": [1, 2], "quoted": "5", "eq": "a=b", "empty": "",
        });
        assert_eq!(Value::Object(read), expected);
        assert!(
            arguments(&["five".into()])
                .unwrap_err()
                .contains("name=value")
        );
        assert!(arguments(&["=5".into()]).is_err());
    }
}
