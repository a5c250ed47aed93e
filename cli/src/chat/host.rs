//! How a conversation lets others in: its names, its token, and what it says of itself.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::words::{Kind, Phase, Problem};
use agentline_core::attach::presence::Record;
use agentline_core::attach::{AgentInfo, Limits, files, server};
use agentline_core::trust::Untrusted;

use crate::attach::leftovers;

/// Whether the user wants that, and how it is done.
///
/// # Errors
///
/// There is no place for it that nobody else can change.
pub(crate) fn attach(flag: bool, cwd: &str) -> Result<Option<server::Config>, Problem> {
    let config =
        config(flag, cwd).map_err(|error| Problem::new(Phase::Spawn, Kind::Internal, error.to_string()))?;
    for place in config.iter().flat_map(|config| [&config.socket, &config.record_file]) {
        let folder = place.parent().unwrap_or(place);
        agentline_os::trust::check(folder, None).map_err(|untrusted| exposed(&untrusted))?;
    }
    if let Some(live) = config.as_ref().and_then(|config| config.record_file.parent()) {
        leftovers::sweep(live);
    }
    Ok(config)
}

/// A folder of sockets or records that others could change.
pub(crate) fn exposed(untrusted: &Untrusted) -> Problem {
    Problem::new(Phase::Connect, Kind::Unreachable, format!("not private: {untrusted}"))
}

fn config(flag: bool, cwd: &str) -> io::Result<Option<server::Config>> {
    let variable = std::env::var_os("AGENTICA_ATTACH_ENABLED");
    if !flag && !files::is_enabled(variable.as_deref(), false) {
        return Ok(None);
    }
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let (attach_dir, tmpdir) = (path("AGENTICA_ATTACH_DIR"), path("TMPDIR"));
    let us = rustix::process::geteuid().as_raw();
    let home = std::env::home_dir().filter(|home| home.is_absolute());
    let home = home.ok_or_else(|| io::Error::other("HOME names no folder"))?;
    let attach_dir = files::attach_dir(attach_dir.as_deref(), tmpdir.as_deref(), us, &home);
    let (cache, agentica) = (path("AGENTICA_CACHE_DIR"), path("AGENTICA_HOME"));
    let live_dir = files::live_dir(cache.as_deref(), agentica.as_deref(), &home);

    let [peer_id, name] = [random()?, random()?];
    let peer_id = files::peer_id(u32::from_le_bytes(peer_id));
    let mut record = Record {
        name: files::peer_name(Path::new(cwd), name[0]),
        pid: Some(std::process::id()),
        cwd: cwd.to_owned(),
        peer_id: peer_id.clone(),
        ..Record::default()
    };
    leftovers::sign(&mut record);
    Ok(Some(server::Config {
        socket: files::socket_file(&std::path::absolute(attach_dir)?, &peer_id),
        token: files::token(random()?),
        record,
        record_file: files::record_file(&std::path::absolute(live_dir)?, &peer_id),
        agent: AgentInfo { name: "agentline".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() },
        limits: Limits::default(),
    }))
}

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
