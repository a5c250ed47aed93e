//! Discovery on a simulated file system.

mod disk;
mod manifests;
mod registries;
mod runners;
mod verification;

use agentline_core::discovery::{Discovery, Registry, Report, Settings};

use disk::Disk;

/// Discovery of a user with that search path, with the bundled registry.
pub(crate) fn discovery(path: &str) -> Discovery {
    let env = |name: &str| match name {
        "PATH" => Some(path.into()),
        "HOME" => Some("/home/me".into()),
        _ => None,
    };
    Discovery::new("/home/me".into(), &env, Registry::bundled(), Settings::default())
}

/// The ids of a report, in order.
pub(crate) fn ids(report: &Report) -> Vec<&str> {
    report.agents.iter().map(|agent| agent.id.as_str()).collect()
}

/// The program that starts an agent.
pub(crate) fn program<'a>(report: &'a Report, id: &str) -> &'a str {
    let agent = report.find(id).expect("found");
    agent.launch.as_ref().expect("has a command").found.program.to_str().expect("is text")
}

/// A disk with these manifests.
pub(crate) fn manifests(files: &[(&str, &str)]) -> Disk {
    let mut disk = Disk::default();
    for (name, text) in files {
        disk.file(&format!("/home/me/.botbus/agents/{name}"), text);
    }
    disk
}
