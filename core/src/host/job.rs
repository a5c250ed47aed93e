//! What an agent asks to be done: read once, checked, and told in the words of permissions.

use std::ffi::OsString;
use std::path::Path;

use serde_json::json;

use super::Terminals;
use crate::acp::client::PermissionAsked;
use crate::acp::services::{CreateTerminal, ReadTextFile, WriteTextFile};
use crate::acp::update::{Location, ToolCallUpdate, ToolKind};
use crate::acp::{Json, OptionKind, PermissionOption, PermissionRequest, RequestKey, SessionId};
use crate::machine::{SpawnSpec, Stderr};
use crate::rpc::{RpcError, shown};

/// A request that waits for a decision, or for whoever carries it out.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) session: SessionId,
    pub(super) work: Work,
    pub(super) state: State,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum State {
    /// Nobody has decided about it.
    Undecided,
    /// It is being done.
    Begun,
}

#[derive(Debug)]
pub(super) enum Work {
    Read(ReadTextFile),
    Write(WriteTextFile),
    Run(Box<Run>),
}

/// A command that is to be started.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) spec: SpawnSpec,
    /// As the agent wrote it: a line for a shell, or a program and its arguments.
    pub(super) words: Vec<String>,
    pub(super) cwd: String,
    /// Bytes of output to keep.
    pub(super) keep: usize,
    /// Variables that it is given beside ours, by name.
    sets: Vec<String>,
}

impl Run {
    /// Reads a command, to be run there unless it says where.
    pub(super) fn new(create: CreateTerminal, cwd: &str, host: &Terminals) -> Result<Self, RpcError> {
        let CreateTerminal { command, args, env, cwd: own, output_byte_limit, .. } = create;
        let cwd = own.unwrap_or_else(|| cwd.to_owned());
        absolute("cwd", &cwd)?;
        if command.trim().is_empty() {
            return Err(RpcError::invalid_params("the command is empty"));
        }
        let sets: Vec<String> = env.iter().map(|pair| pair.name.clone()).collect();
        let values = env.iter().map(|pair| pair.value.expose());
        if [&command].into_iter().chain(&args).chain(&sets).chain(values).any(|text| text.contains('\0')) {
            return Err(RpcError::invalid_params("a NUL in the command or its environment"));
        }
        if sets.iter().any(|name| name.is_empty() || name.contains('=')) {
            return Err(RpcError::invalid_params("the name of a variable is empty or has a = in it"));
        }
        let (program, given) = if args.is_empty() && !command.chars().all(is_plain) {
            ("/bin/sh".into(), vec!["-c".into(), command.clone().into()])
        } else if command.contains('/') {
            // A name with a slash is meant from where the command runs.
            (Path::new(&cwd).join(&command).into_os_string(), args.iter().map(OsString::from).collect())
        } else {
            (OsString::from(&command), args.iter().map(OsString::from).collect())
        };
        let given_env = env.into_iter().map(|pair| {
            let value = OsString::from(pair.value.expose());
            (OsString::from(pair.name), value.into())
        });
        let pwd = (OsString::from("PWD"), OsString::from(&cwd).into());
        let env = host.env.iter().cloned().chain([pwd]).chain(given_env).collect();
        let most = output_byte_limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        Ok(Self {
            spec: SpawnSpec { program, args: given, cwd: cwd.clone().into(), env, stderr: Stderr::Output },
            words: [command].into_iter().chain(args).collect(),
            cwd,
            keep: most.min(host.output),
            sets,
        })
    }
}

impl Job {
    /// Bytes that it keeps until it is done.
    pub(super) fn size(&self) -> usize {
        match &self.work {
            Work::Read(read) => read.path.len(),
            Work::Write(write) => write.path.len() + write.content.len(),
            Work::Run(run) => {
                let words = run.spec.args.iter().map(|word| word.len()).sum::<usize>();
                let env = run.spec.env.iter().map(|(name, value)| name.len() + value.expose().len());
                2 * words + env.sum::<usize>()
            }
        }
    }

    /// The same as a question of permission, which rules and people can decide.
    pub(super) fn question(&self, request: RequestKey) -> PermissionAsked {
        let (kind, title, path, raw_input) = match &self.work {
            Work::Read(ReadTextFile { path, .. }) => (ToolKind::Read, format!("Read {path}"), path, None),
            Work::Write(WriteTextFile { path, .. }) => (ToolKind::Edit, format!("Write {path}"), path, None),
            Work::Run(run) => {
                let command = match &run.words[..] {
                    [line] => json!(line),
                    words => json!(words),
                };
                let input = json!({ "command": command, "env": run.sets });
                (ToolKind::Execute, run.words.join(" "), &run.cwd, Some(Json::new(&input)))
            }
        };
        let location = Location { path: path.clone(), line: None, meta: None };
        let option = |id: &str, name: &str, kind| PermissionOption {
            option_id: id.to_owned(),
            name: name.to_owned(),
            kind,
        };
        let asked = PermissionRequest {
            session_id: self.session.clone(),
            tool_call: ToolCallUpdate {
                tool_call_id: format!("hosted-{}", request.0),
                title: Some(title),
                kind: Some(kind),
                locations: Some(vec![location]),
                raw_input,
                ..ToolCallUpdate::default()
            },
            options: vec![
                option(ALLOW, "Allow once", OptionKind::AllowOnce),
                option("reject", "Reject", OptionKind::RejectOnce),
            ],
            meta: None,
        };
        PermissionAsked { request, asked }
    }
}

/// What is no path of a file anywhere.
pub(super) fn absolute(what: &str, path: &str) -> Result<(), RpcError> {
    if !path.starts_with('/') {
        return Err(RpcError::invalid_params(format!("{what} is not absolute: {}", shown(path))));
    }
    if path.contains('\0') {
        return Err(RpcError::invalid_params(format!("a NUL in {what}")));
    }
    Ok(())
}

/// Characters that mean the same to a shell and to nobody else.
const fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '/' | '+' | '@' | '%' | ':' | ',' | '-')
}

/// The option that lets it be done.
pub(crate) const ALLOW: &str = "allow";
