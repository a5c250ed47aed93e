//! What holds secrets, as the peer gets it. Wherever else it is written, placeholders stand for them.

use serde::{Serialize, Serializer};

use super::content::Tagged;
use super::services::CreateTerminal;
use super::session::{McpHttp, McpServer, McpStdio, Pair, SessionSetup, SystemPrompt};
use super::{Json, SessionId};

/// A value with its secrets as they are: for the wire alone.
pub(crate) struct Exposed<'a, T>(pub(crate) &'a T);

impl Serialize for Exposed<'_, SessionSetup> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            cwd: &'a str,
            mcp_servers: Exposed<'a, Vec<McpServer>>,
            #[serde(skip_serializing_if = "<[String]>::is_empty")]
            additional_directories: &'a [String],
            #[serde(skip_serializing_if = "Option::is_none")]
            system_prompt: Option<&'a SystemPrompt>,
            #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
            meta: Option<&'a Json>,
        }
        let SessionSetup { cwd, mcp_servers, additional_directories, system_prompt, meta } = self.0;
        Wire {
            cwd,
            mcp_servers: Exposed(mcp_servers),
            additional_directories,
            system_prompt: system_prompt.as_ref(),
            meta: meta.as_ref(),
        }
        .serialize(serializer)
    }
}

impl Serialize for Exposed<'_, CreateTerminal> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            session_id: &'a SessionId,
            command: &'a str,
            args: &'a [String],
            env: Exposed<'a, Vec<Pair>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            cwd: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            output_byte_limit: Option<u64>,
        }
        let CreateTerminal { session_id, command, args, env, cwd, output_byte_limit } = self.0;
        let (cwd, output_byte_limit) = (cwd.as_deref(), *output_byte_limit);
        Wire { session_id, command, args, env: Exposed(env), cwd, output_byte_limit }.serialize(serializer)
    }
}

impl Serialize for Exposed<'_, McpServer> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            McpServer::Stdio(server) => Exposed(server).serialize(serializer),
            McpServer::Http(server) => Tagged { tag: "http", fields: &Exposed(server) }.serialize(serializer),
            McpServer::Sse(server) => Tagged { tag: "sse", fields: &Exposed(server) }.serialize(serializer),
        }
    }
}

impl Serialize for Exposed<'_, McpStdio> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Wire<'a> {
            name: &'a str,
            command: &'a str,
            args: &'a [String],
            env: Exposed<'a, Vec<Pair>>,
        }
        let McpStdio { name, command, args, env } = self.0;
        Wire { name, command, args, env: Exposed(env) }.serialize(serializer)
    }
}

impl Serialize for Exposed<'_, McpHttp> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Wire<'a> {
            name: &'a str,
            url: &'a str,
            headers: Exposed<'a, Vec<Pair>>,
        }
        let McpHttp { name, url, headers } = self.0;
        Wire { name, url, headers: Exposed(headers) }.serialize(serializer)
    }
}

impl Serialize for Exposed<'_, Pair> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Wire<'a> {
            name: &'a str,
            value: &'a str,
        }
        let Pair { name, value } = self.0;
        Wire { name, value: value.expose() }.serialize(serializer)
    }
}

impl<T> Serialize for Exposed<'_, Vec<T>>
where
    for<'a> Exposed<'a, T>: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Exposed))
    }
}
