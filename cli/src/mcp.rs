//! The file of `--mcp`: a list of servers as in ACP, or the object of servers that editors keep in `.mcp.json`.

use std::path::Path;

use crate::words::Problem;
use agentline_core::acp::session::{McpHttp, McpServer, McpStdio, Pair};
use agentline_core::discovery::Position;
use serde_json::{Map, Value};

use crate::prompt::{TEXT, of_file, read};

/// The MCP servers of a file.
pub(crate) fn servers(file: &Path) -> Result<Vec<McpServer>, Problem> {
    let bytes = read("--mcp", file, TEXT)?;
    let wrong = |why: String| {
        of_file("--mcp", file, why).hint("[{\"name\":\"files\",\"command\":\"/path/to/server\",\"args\":[]}]")
    };
    let json: Value = serde_json::from_slice(&bytes)
        .map_err(|error| wrong(format!("is not JSON ({})", Position::from(&error))))?;
    all(json).map_err(|Wrong { at, why }| wrong(format!("is no list of MCP servers: {at} {why}")))
}

/// What is wrong, and where in the file.
#[derive(Debug, Eq, PartialEq)]
struct Wrong {
    at: String,
    why: &'static str,
}

fn wrong<T>(at: &str, why: &'static str) -> Result<T, Wrong> {
    Err(Wrong { at: at.to_owned(), why })
}

fn all(json: Value) -> Result<Vec<McpServer>, Wrong> {
    match json {
        Value::Array(list) => {
            let servers = list.into_iter().enumerate();
            servers.map(|(at, server)| one(&format!("[{at}]"), None, server)).collect()
        }
        Value::Object(mut object) => {
            let (at, servers) =
                match ["mcpServers", "servers"].into_iter().find(|key| object.contains_key(*key)) {
                    Some(key) => (key, object.remove(key).unwrap_or_default()),
                    None => ("", Value::Object(object)),
                };
            let Value::Object(servers) = servers else { return wrong(at, "is no object of servers") };
            let path = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
            servers.into_iter().map(|(name, server)| one(&path(&name), Some(name), server)).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            wrong("it", "is neither a list nor an object")
        }
    }
}

/// One server. `name`: its key, where it has one.
fn one(at: &str, name: Option<String>, json: Value) -> Result<McpServer, Wrong> {
    let Value::Object(mut fields) = json else { return wrong(at, "is no object") };
    let name = match name {
        Some(name) => name,
        None => {
            text(at, &mut fields, "name")?.ok_or(Wrong { at: format!("{at}.name"), why: "is missing" })?
        }
    };
    let kind = text(at, &mut fields, "type")?.or(text(at, &mut fields, "transport")?);
    let (command, url) = (text(at, &mut fields, "command")?, text(at, &mut fields, "url")?);
    match (kind.as_deref(), command, url) {
        (None | Some("stdio"), Some(command), None) => {
            let args = words(at, &mut fields)?;
            let env = pairs(at, &mut fields, "env")?;
            Ok(McpServer::Stdio(McpStdio { name, command, args, env }))
        }
        (None | Some("http" | "streamable-http" | "streamableHttp"), None, Some(url)) => {
            Ok(McpServer::Http(McpHttp { name, url, headers: pairs(at, &mut fields, "headers")? }))
        }
        (Some("sse"), None, Some(url)) => {
            Ok(McpServer::Sse(McpHttp { name, url, headers: pairs(at, &mut fields, "headers")? }))
        }
        (_, Some(_), Some(_)) => wrong(at, "has a command and a url: one of them is too much"),
        (None, None, None) => wrong(at, "has neither a command nor a url"),
        (Some("stdio"), None, _) => wrong(&format!("{at}.command"), "is missing"),
        (Some("http" | "streamable-http" | "streamableHttp" | "sse"), ..) => {
            wrong(&format!("{at}.url"), "is missing")
        }
        (Some(_), ..) => wrong(&format!("{at}.type"), "is none of stdio, http and sse"),
    }
}

fn text(at: &str, fields: &mut Map<String, Value>, field: &str) -> Result<Option<String>, Wrong> {
    match fields.remove(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
        Some(Value::String(_)) => wrong(&format!("{at}.{field}"), "is empty"),
        Some(_) => wrong(&format!("{at}.{field}"), "is no text"),
    }
}

fn words(at: &str, fields: &mut Map<String, Value>) -> Result<Vec<String>, Wrong> {
    let words = match fields.remove("args") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(words)) => words,
        Some(_) => return wrong(&format!("{at}.args"), "is no list"),
    };
    let word = |(number, word): (usize, Value)| {
        let Value::String(word) = word else { return wrong(&format!("{at}.args[{number}]"), "is no text") };
        Ok(word)
    };
    words.into_iter().enumerate().map(word).collect()
}

/// Variables or headers: a list of pairs, or an object.
fn pairs(at: &str, fields: &mut Map<String, Value>, field: &str) -> Result<Vec<Pair>, Wrong> {
    let pairs: Vec<(String, String, Value)> = match fields.remove(field) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(pairs)) => {
            pairs.into_iter().map(|(name, value)| (format!("{at}.{field}.{name}"), name, value)).collect()
        }
        Some(Value::Array(list)) => {
            let pair = |(number, pair): (usize, Value)| {
                let at = format!("{at}.{field}[{number}]");
                let Value::Object(mut pair) = pair else { return wrong(&at, "is no object") };
                let Some(name) = text(&at, &mut pair, "name")? else {
                    return wrong(&format!("{at}.name"), "is missing");
                };
                let value = pair.remove("value").unwrap_or_default();
                Ok((format!("{at}.value"), name, value))
            };
            list.into_iter().enumerate().map(pair).collect::<Result<_, _>>()?
        }
        Some(_) => return wrong(&format!("{at}.{field}"), "is neither a list nor an object"),
    };
    let pair = |(at, name, value): (String, String, Value)| match value {
        Value::String(value) => Ok(Pair { name, value: value.into() }),
        Value::Null => wrong(&at, "is missing"),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => wrong(&at, "is no text"),
    };
    pairs.into_iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Vec<McpServer>, String> {
        all(serde_json::from_str(json).expect(json)).map_err(|Wrong { at, why }| format!("{at} {why}"))
    }

    #[test]
    fn mcp_file_shapes_are_one_list_on_the_wire() {
        let list = r#"[{"name":"f","command":"/f","env":[{"name":"K","value":"v"}]},
            {"type":"http","name":"h","url":"http://h"}]"#;
        let object =
            r#"{"mcpServers":{"f":{"command":"/f","env":{"K":"v"}},"h":{"url":"http://h","headers":{}}}}"#;
        let bare = r#"{"f":{"type":"stdio","command":"/f","args":null,"env":{"K":"v"}},"h":{"type":"http","url":"http://h"}}"#;
        let wire = r#"[{"name":"f","command":"/f","args":[],"env":[{"name":"K","value":"\u2022"}]},{"type":"http","name":"h","url":"http://h","headers":[]}]"#;
        let written = |json: &str| serde_json::to_value(read(json).expect(json)).expect("JSON");
        assert_eq!(written(list), written(object));
        assert_eq!(written(list), written(bare));
        let without_values = |value: Value| value.to_string().matches("\"args\":[]").count();
        assert_eq!(without_values(written(list)), 1, "{wire}");
    }

    #[test]
    fn a_fault_names_the_place_and_the_reason() {
        for (json, said) in [
            ("3", "it is neither a list nor an object"),
            ("[3]", "[0] is no object"),
            (r#"[{"command":"/f"}]"#, "[0].name is missing"),
            (r#"[{"name":"f"}]"#, "[0] has neither a command nor a url"),
            (r#"{"mcpServers":[]}"#, "mcpServers is no object of servers"),
            (r#"{"mcpServers":{"f":{"comand":"/f"}}}"#, "mcpServers.f has neither a command nor a url"),
            (r#"{"mcpServers":{"f":{"command":3}}}"#, "mcpServers.f.command is no text"),
            (r#"{"f":{"command":"/f","args":"x"}}"#, "f.args is no list"),
            (r#"{"f":{"command":"/f","args":["x",1]}}"#, "f.args[1] is no text"),
            (r#"{"f":{"command":"/f","env":{"K":1}}}"#, "f.env.K is no text"),
            (r#"{"f":{"command":"/f","env":[{"value":"v"}]}}"#, "f.env[0].name is missing"),
            (r#"{"f":{"url":"http://h","headers":[{"name":"A"}]}}"#, "f.headers[0].value is missing"),
            (r#"{"f":{"type":"sse","command":"/f"}}"#, "f.url is missing"),
            (r#"{"f":{"type":"carrier pigeon","url":"x"}}"#, "f.type is none of stdio, http and sse"),
            (r#"{"f":{"command":"/f","url":"x"}}"#, "f has a command and a url: one of them is too much"),
        ] {
            assert_eq!(read(json).unwrap_err(), said, "{json}");
        }
    }
}
