//! The login that a demo agent wants: one that it does itself and forgets when it ends, one in a terminal, and one by a
//! variable.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agentline_core::acp::session::AuthMethod;
use agentline_core::rpc::{RpcError, code};
use serde_json::json;

use crate::output;
use crate::words::{Kind, Phase, Problem};

/// Whether somebody has logged in, here or in a terminal.
pub(super) struct Door {
    is_open: bool,
    /// Is there while somebody is logged in by a terminal.
    file: PathBuf,
}

impl Door {
    pub(super) const fn new(file: PathBuf) -> Self {
        Self { is_open: false, file }
    }

    pub(super) fn is_shut(&self) -> bool {
        !self.is_open && !self.file.exists() && std::env::var_os(VARIABLE).is_none()
    }

    pub(super) fn methods(&self) -> Vec<AuthMethod> {
        let methods = json!([
            { "id": "demo", "name": "Demo login" },
            { "id": "demo-terminal", "name": "Demo login in a terminal", "type": "terminal", "args": ["--log-in"] },
            { "id": "demo-key", "name": "Demo key", "type": "env_var", "vars": [{ "name": VARIABLE }] },
        ]);
        serde_json::from_str(&methods.to_string()).unwrap_or_default()
    }

    pub(super) fn open(&mut self, method: &str) -> Result<(), RpcError> {
        match method {
            "demo" => {
                self.is_open = true;
                Ok(())
            }
            _ => Err(RpcError::invalid_params(format!("no login {method}"))),
        }
    }

    pub(super) fn close(&mut self) -> Result<(), RpcError> {
        self.is_open = false;
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(RpcError::new(code::INTERNAL_ERROR, error.to_string()))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Logs in, as a program in a terminal.
pub(super) fn log_in(file: &Path) -> Result<ExitCode, Problem> {
    let failed = |error: std::io::Error| {
        Problem::new(Phase::Authenticate, Kind::Internal, format!("{}: {error}", file.display()))
    };
    fs::write(file, "logged in\n").map_err(failed)?;
    Ok(output::print("demo agent: logged in\n"))
}

/// The variable that opens it.
const VARIABLE: &str = "AGENTLINE_DEMO_KEY";
