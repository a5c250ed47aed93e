//! The folder that an agent works in.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::words::Problem;

use crate::prompt::usage;

/// A folder that can be worked in.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Workspace {
    /// Its real path: absolute, without links and detours. This is what agents are told.
    pub(crate) path: PathBuf,
    /// Other spellings by which an agent may know it: through a link, as it was typed.
    pub(crate) spellings: Vec<String>,
}

impl Workspace {
    /// The folder that was given, or the one we are in.
    pub(crate) fn of(given: Option<&Path>) -> Result<Self, Problem> {
        let wrong = |path: &Path, why: &str| {
            let problem = usage(format!("the workspace {} {why}", path.display()));
            problem.hint("agentline run -C ~/proj \"hello\"")
        };
        let here = std::env::current_dir();
        let path = match (given, &here) {
            (Some(given), _) if given.as_os_str().is_empty() => {
                return Err(wrong(given, "is no folder: the name is empty"));
            }
            (Some(given), _) if given.is_absolute() => given.to_owned(),
            (_, Err(error)) => return Err(wrong(Path::new("."), &format!("is gone: {error}"))),
            (Some(given), Ok(here)) => here.join(given),
            (None, Ok(here)) => here.clone(),
        };
        let facts = fs::metadata(&path).map_err(|error| wrong(&path, &format!("cannot be used: {error}")))?;
        if !facts.is_dir() {
            return Err(wrong(&path, "is not a folder"));
        }
        if !agentline_os::process::can_enter(&path) {
            return Err(wrong(&path, "may not be entered"));
        }
        let real =
            fs::canonicalize(&path).map_err(|error| wrong(&path, &format!("cannot be used: {error}")))?;
        if real.to_str().is_none() {
            return Err(wrong(&real, "has a name that is not UTF-8, which the protocol needs"));
        }
        // The shell knows by which links we came here.
        let shell = std::env::var_os("PWD").map(PathBuf::from).filter(|path| path.is_absolute());
        let shell = shell.map(|shell| given.map_or_else(|| shell.clone(), |given| shell.join(given)));
        let spellings = [Some(path), shell].into_iter().flatten().filter_map(|path| spelling(&path, &real));
        let mut spellings: Vec<String> = spellings.collect();
        spellings.dedup();
        Ok(Self { path: real, spellings })
    }
}

/// Another absolute spelling of a folder, if it is one.
fn spelling(path: &Path, real: &Path) -> Option<String> {
    let plain: PathBuf = path.components().collect();
    // What a detour leads to depends on the links before it.
    let has_detour = plain.components().any(|part| part == Component::ParentDir);
    let is_other = !has_detour && plain != real && fs::canonicalize(&plain).is_ok_and(|found| found == real);
    plain.into_os_string().into_string().ok().filter(|_| is_other)
}
