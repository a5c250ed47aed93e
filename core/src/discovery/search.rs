//! Where executables are looked for: `PATH`, then the usual global folders of Linux and macOS.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use super::Limits;
use super::folders::{Env, absolute, expand};
use super::look::{Eyes, File, Names, Unfit};

/// The folders that are searched, in order.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Search {
    home: PathBuf,
    known: Vec<PathBuf>,
    nvm: PathBuf,
}

/// A program that was found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Found {
    /// Where it was found, symlinks kept: this is what is started.
    pub program: PathBuf,
    /// What the file is.
    pub file: File,
}

impl Search {
    /// The search of the user whose home that is. Empty and relative elements of `PATH` are left out: they
    /// would run a program of whatever folder the child is in.
    #[must_use]
    pub fn new(home: PathBuf, env: Env<'_>) -> Self {
        let path = env("PATH").unwrap_or_default();
        let mut known: Vec<PathBuf> = std::env::split_paths(&path).filter(|dir| dir.is_absolute()).collect();
        for place in USUAL {
            known.extend(match *place {
                Place::At(path) => Some(expand(&home, path)),
                Place::Below(variable, rest) => absolute(env, variable).map(|root| root.join(rest)),
            });
        }
        let nvm = absolute(env, "NVM_DIR").unwrap_or_else(|| home.join(".nvm")).join("versions/node");
        Self { home, known, nvm }
    }

    /// All folders to search, each once, as far as the snapshot tells.
    pub(super) fn folders(&self, eyes: &mut Eyes<'_>, limits: &Limits) -> Vec<PathBuf> {
        let npmrc = self.home.join(".npmrc");
        // What it names is searched for programs.
        let is_ours = eyes.trust(&npmrc, &self.home).is_ok();
        let prefix = eyes
            .file(&npmrc, limits.npmrc)
            .flatten()
            .filter(|_| is_ours)
            .and_then(|text| npm_prefix(&self.home, text));
        let nvm = match eyes.folder(&self.nvm) {
            Some(Names::Of(names)) => names.iter().filter_map(|name| name.to_str()).collect(),
            Some(Names::Missing | Names::Unreadable) | None => Vec::new(),
        };
        let mut all: Vec<PathBuf> = Vec::new();
        let npm = prefix.map(|prefix| prefix.join("bin"));
        let nvm = newest_first(nvm).into_iter().map(|version| self.nvm.join(version).join("bin"));
        for dir in self.known.iter().cloned().chain(npm).chain(nvm) {
            if !all.contains(&dir) {
                all.push(dir);
            }
        }
        all
    }
}

/// The first file of that name that is a program, and of the npm package if one is asked for. What was passed
/// over is added to `passed` with its reason; folders without the name are not worth a word.
pub(super) fn locate(
    eyes: &mut Eyes<'_>,
    folders: &[PathBuf],
    name: &str,
    package: Option<&str>,
    passed: &mut Vec<(PathBuf, Unfit)>,
) -> Option<Found> {
    if name.is_empty() || name.contains('/') {
        return None;
    }
    for folder in folders {
        let program = folder.join(name);
        // What was not looked at yet is passed in silence: all of it is asked for in one go.
        let unfit = match eyes.program(&program) {
            Some(Ok(file)) => match package.filter(|package| !inside(package, &file.real)) {
                None => return Some(Found { program, file: file.clone() }),
                Some(package) => Unfit::OutsidePackage(package.into()),
            },
            Some(Err(unfit)) => unfit,
            None => continue,
        };
        if unfit != Unfit::Missing {
            passed.push((program, unfit));
        }
    }
    None
}

/// Whether a real path is inside the npm package. So no other program of the same name is started as that agent
/// (BotBus, 三种接入方式).
fn inside(package: &str, real: &Path) -> bool {
    real.to_string_lossy().contains(&format!("/node_modules/{package}/"))
}

/// Names of node versions, by number; what is no version comes last.
fn newest_first(mut names: Vec<&str>) -> Vec<&str> {
    names.sort_by_key(|name| {
        let digits = name.strip_prefix('v').unwrap_or(name);
        let version: Option<Vec<u64>> = digits.split('.').map(|part| part.parse().ok()).collect();
        (Reverse(version), *name)
    });
    names
}

/// The `prefix` of an `.npmrc`: where `npm install --global` puts things.
fn npm_prefix(home: &Path, npmrc: &[u8]) -> Option<PathBuf> {
    let text = String::from_utf8_lossy(npmrc);
    let mut values =
        text.lines().filter_map(|line| line.trim().strip_prefix("prefix")?.trim_start().strip_prefix('='));
    let value = values.next_back()?.trim().trim_matches('"');
    let value = value.strip_prefix("${HOME}").map_or_else(|| value.to_owned(), |rest| format!("~{rest}"));
    Some(expand(home, &value)).filter(|path| path.is_absolute())
}

enum Place {
    /// An absolute path, or one below the home.
    At(&'static str),
    /// Below the folder that a variable names.
    Below(&'static str, &'static str),
}

/// The fixed list that BotBus searches, in its order, with the variables that move a folder and the Linux
/// counterparts beside each.
const USUAL: &[Place] = &[
    // Where uv, pipx and many installers put programs.
    Place::Below("UV_TOOL_BIN_DIR", ""),
    Place::Below("PIPX_BIN_DIR", ""),
    Place::Below("XDG_BIN_HOME", ""),
    Place::At("~/.local/bin"),
    Place::Below("HOMEBREW_PREFIX", "bin"),
    Place::At("/opt/homebrew/bin"),
    Place::At("/usr/local/bin"),
    Place::At("/home/linuxbrew/.linuxbrew/bin"),
    Place::Below("NPM_CONFIG_PREFIX", "bin"),
    Place::Below("npm_config_prefix", "bin"),
    Place::At("~/.npm-global/bin"),
    Place::Below("BUN_INSTALL", "bin"),
    Place::At("~/.bun/bin"),
    Place::Below("VOLTA_HOME", "bin"),
    Place::At("~/.volta/bin"),
    Place::Below("PNPM_HOME", ""),
    Place::At("~/Library/pnpm"),
    Place::At("~/.local/share/pnpm"),
    Place::Below("CARGO_HOME", "bin"),
    Place::At("~/.cargo/bin"),
    Place::At("/usr/bin"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g9_no_relative_folder_is_ever_searched() {
        let env = |name: &str| match name {
            "PATH" => Some(":.:bin:../up:/good::~/home:/also/good:".into()),
            // Each of these moves a folder.
            "UV_TOOL_BIN_DIR" | "XDG_BIN_HOME" | "NPM_CONFIG_PREFIX" | "NVM_DIR" | "CARGO_HOME" => {
                Some("relative".into())
            }
            _ => None,
        };
        let search = Search::new("/home/me".into(), &env);
        assert!(search.known.iter().all(|folder| folder.is_absolute()), "{:?}", search.known);
        assert_eq!(search.known[..2], [Path::new("/good"), Path::new("/also/good")]);
        assert_eq!(search.nvm, Path::new("/home/me/.nvm/versions/node"));
    }

    #[test]
    fn node_versions_are_compared_as_numbers() {
        let names = vec!["v8.17.0", "system", "v22.3.0", "v20.19.1", "v20.9.0", "v100.0.0", ".cache"];
        let sorted = ["v100.0.0", "v22.3.0", "v20.19.1", "v20.9.0", "v8.17.0", ".cache", "system"];
        assert_eq!(newest_first(names), sorted);
    }

    #[test]
    fn the_npm_prefix_is_read_as_npm_does() {
        let home = Path::new("/home/me");
        for (text, prefix) in [
            ("prefix=/opt/npm", Some("/opt/npm")),
            ("registry=x\n prefix = ~/.npm \n", Some("/home/me/.npm")),
            ("prefix=\"${HOME}/n\"\r\n", Some("/home/me/n")),
            ("prefix=/a\nprefix=/b", Some("/b")),
            ("prefix=relative", None),
            ("prefixes=/a\n;prefix=/b\n//host/:_authToken=x", None),
        ] {
            assert_eq!(npm_prefix(home, text.as_bytes()).as_deref(), prefix.map(Path::new), "{text}");
        }
    }

    #[test]
    fn the_package_is_whole_folders_of_the_real_path() {
        for (real, package, hit) in [
            ("/usr/lib/node_modules/@google/gemini-cli/dist/x.js", "@google/gemini-cli", true),
            ("/s/.pnpm/@a+b@1/node_modules/@a/b/x.js", "@a/b", true),
            ("/usr/lib/node_modules/cline-extra/x.js", "cline", false),
            ("/usr/lib/node_modules/other/cline/x.js", "cline", false),
            ("/usr/lib/node_modules/cline", "cline", false),
            ("/opt/cline/bin/cline", "cline", false),
        ] {
            assert_eq!(inside(package, Path::new(real)), hit, "{real}");
        }
    }
}
