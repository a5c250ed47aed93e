//! What the demo agent has its client do: it has no shell and no files of its own.

use agentline_core::Tag;
use agentline_core::acp::agent::Command;
use agentline_core::acp::services::{
    CreateTerminal, ReadTextFile, ServiceRequest, TerminalRef, WriteTextFile,
};
use agentline_core::acp::update::{Speaker, ToolCallUpdate, ToolContent, ToolKind, ToolStatus};
use agentline_core::acp::{Json, Update};
use agentline_core::rpc::RpcError;
use serde::Deserialize;

use super::player::{Break, Player};
use super::script::Tool;

impl Player {
    /// Has a command run, and says what came of it.
    pub(super) fn term(&mut self, line: &str) -> Result<(), Break> {
        let id = self.announce(&tool(line, ToolKind::Execute, Some(line)))?;
        let create = ServiceRequest::CreateTerminal(CreateTerminal {
            session_id: self.session.clone(),
            command: line.into(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
            output_byte_limit: Some(OUTPUT),
        });
        let Some(created) = self.served::<Created>(&id, &create)? else { return Ok(()) };
        let of = TerminalRef { session_id: self.session.clone(), terminal_id: created.terminal_id };
        let done = self.follow(&id, &of);
        if done.is_err() {
            // The turn ends here, and nobody waits for the answer.
            let tag = Tag(self.tag.0 | RELEASE);
            let wanted = ServiceRequest::ReleaseTerminal(of);
            let _ = self.agent.command(Command::Request { tag, wanted });
        }
        done
    }

    fn follow(&self, id: &str, of: &TerminalRef) -> Result<(), Break> {
        let content = of.terminal_id.clone();
        self.report(Update::ToolCallUpdate(ToolCallUpdate {
            tool_call_id: id.into(),
            status: Some(ToolStatus::InProgress),
            content: Some(vec![ToolContent::Terminal(content)]),
            ..ToolCallUpdate::default()
        }))?;
        let wait = ServiceRequest::WaitForTerminal(of.clone());
        let Some(status) = self.served::<Status>(id, &wait)? else { return Ok(()) };
        let Some(output) = self.served::<Output>(id, &ServiceRequest::TerminalOutput(of.clone()))? else {
            return Ok(());
        };
        self.request(&ServiceRequest::ReleaseTerminal(of.clone()))?;
        let failed = status.exit_code != Some(0);
        self.progress(id, if failed { ToolStatus::Failed } else { ToolStatus::Completed })?;
        let gap = if output.truncated { "[…]\n" } else { "" };
        self.say(Speaker::Agent, &format!("{gap}{}", output.output))?;
        match (status.exit_code, status.signal) {
            (Some(0), _) => Ok(()),
            (Some(code), _) => self.say(Speaker::Agent, &format!("It ended with {code}.\n")),
            (None, Some(signal)) => self.say(Speaker::Agent, &format!("It was ended by {signal}.\n")),
            (None, None) => self.say(Speaker::Agent, "It has ended.\n"),
        }
    }

    /// Has a file read, and says what it holds.
    pub(super) fn read_file(&mut self, path: &str) -> Result<(), Break> {
        let id = self.announce(&tool(path, ToolKind::Read, None))?;
        let (session_id, path) = (self.session.clone(), self.absolute(path));
        let read = ReadTextFile { session_id, path, line: None, limit: None };
        let Some(text) = self.served::<Text>(&id, &ServiceRequest::ReadTextFile(read))? else {
            return Ok(());
        };
        self.progress(&id, ToolStatus::Completed)?;
        self.say(Speaker::Agent, &text.content)
    }

    /// Has a file written.
    pub(super) fn write_file(&mut self, path: &str, text: &str) -> Result<(), Break> {
        let id = self.announce(&tool(path, ToolKind::Edit, None))?;
        let (session_id, path, content) = (self.session.clone(), self.absolute(path), text.to_owned());
        let write = ServiceRequest::WriteTextFile(WriteTextFile { session_id, path, content });
        let Some(Json { .. }) = self.served::<Json>(&id, &write)? else { return Ok(()) };
        self.progress(&id, ToolStatus::Completed)?;
        self.say(Speaker::Agent, "Written.\n")
    }

    fn absolute(&self, path: &str) -> String {
        if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", self.cwd) }
    }

    /// Asks the client for something. Where it does not do that, the tool fails, and the user is told why.
    fn served<T: for<'a> Deserialize<'a>>(
        &self,
        id: &str,
        wanted: &ServiceRequest,
    ) -> Result<Option<T>, Break> {
        let why = match self.request(wanted)? {
            Some(Ok(answer)) => match serde_json::from_str(answer.get()) {
                Ok(answer) => return Ok(Some(answer)),
                Err(error) => error.to_string(),
            },
            Some(Err(RpcError { message, .. })) => message,
            None => "this client offers no such thing, and I have none of my own".to_owned(),
        };
        self.progress(id, ToolStatus::Failed)?;
        self.say(Speaker::Agent, &format!("That does not work: {why}.\n"))?;
        Ok(None)
    }
}

fn tool(title: &str, kind: ToolKind, command: Option<&str>) -> Tool {
    Tool { title: title.into(), kind, command: command.map(str::to_owned), diff: None, seconds: 0.0 }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Created {
    terminal_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    exit_code: Option<u32>,
    signal: Option<String>,
}

#[derive(Deserialize)]
struct Output {
    output: String,
    truncated: bool,
}

#[derive(Deserialize)]
struct Text {
    content: String,
}

/// Bytes of output that are asked for.
const OUTPUT: u64 = 64 << 10;
/// What makes another tag of one of a turn.
const RELEASE: u64 = 1 << 63;
