//! The way to a file inside of folders, step by step, so that nothing on it leads out.
//!
//! Whoever walks holds the folders that it went through and opens each next one from the last, without following
//! links: what a link says comes back here by [`Walk::follow`]. So there is no moment between a check and its use.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// A folder that may be worked in, in both of its spellings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Root {
    /// As the agent was told.
    pub told: PathBuf,
    /// Without links on the way.
    pub real: PathBuf,
}

/// Where a walk is.
#[derive(Debug)]
pub struct Walk<'a> {
    roots: &'a [Root],
    root: usize,
    /// Whether the root is entered.
    begun: bool,
    /// Folders below the root.
    depth: usize,
    ahead: VecDeque<OsString>,
    links: u32,
}

/// What to do next.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// Forget all folders and enter the root of that index.
    Enter(usize),
    /// Enter that folder of the one we are in. Where it is a link, [follow](Walk::follow) it.
    Down(OsString),
    /// Go back to the folder that we came from.
    Up,
    /// That name in the folder we are in is the file. Where it is a link, [follow](Walk::follow) it.
    File(OsString),
    /// The path ends at the folder we are in.
    Folder,
}

/// Why there is no way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Astray {
    /// It leads out of the folders.
    Outside,
    /// So many links lead in a circle.
    Circle,
}

impl<'a> Walk<'a> {
    /// The way to an absolute path.
    ///
    /// # Errors
    ///
    /// It is in none of the folders.
    pub fn new(roots: &'a [Root], path: &Path) -> Result<Self, Astray> {
        let mut walk = Self { roots, root: 0, begun: false, depth: 0, ahead: VecDeque::new(), links: 0 };
        walk.begin(path)?;
        Ok(walk)
    }

    /// The next step. After [`Step::File`] and [`Step::Folder`] there is none, unless a link is followed.
    ///
    /// # Errors
    ///
    /// It would lead out.
    pub fn step(&mut self) -> Result<Step, Astray> {
        if !std::mem::replace(&mut self.begun, true) {
            self.depth = 0;
            return Ok(Step::Enter(self.root));
        }
        match self.ahead.pop_front() {
            None => Ok(Step::Folder),
            Some(up) if up == ".." => {
                self.depth = self.depth.checked_sub(1).ok_or(Astray::Outside)?;
                Ok(Step::Up)
            }
            Some(name) if self.ahead.is_empty() => Ok(Step::File(name)),
            Some(name) => {
                self.depth += 1;
                Ok(Step::Down(name))
            }
        }
    }

    /// Whether what is ahead only leads down: then a folder that is missing can be made.
    #[must_use]
    pub fn descends(&self) -> bool {
        self.ahead.iter().all(|name| name != "..")
    }

    /// The name of the last step is a link to there. It was not entered.
    ///
    /// # Errors
    ///
    /// It leads out, or is one too many.
    pub fn follow(&mut self, last: &Step, target: &Path) -> Result<(), Astray> {
        self.links += 1;
        if self.links > LINKS {
            return Err(Astray::Circle);
        }
        if let Step::Down(_) = last {
            self.depth -= 1;
        }
        if target.is_absolute() {
            let rest = std::mem::take(&mut self.ahead);
            self.begin(target)?;
            self.ahead.extend(rest);
        } else {
            for name in names(target).into_iter().rev() {
                self.ahead.push_front(name);
            }
        }
        Ok(())
    }

    fn begin(&mut self, path: &Path) -> Result<(), Astray> {
        let roots = self.roots.iter().enumerate();
        let spelled = roots.flat_map(|(at, root)| [(at, &root.told), (at, &root.real)]);
        let inside = spelled.filter_map(|(at, root)| Some((at, path.strip_prefix(root).ok()?)));
        let nearest = inside.min_by_key(|(_, rest)| rest.components().count());
        let (root, rest) = nearest.ok_or(Astray::Outside)?;
        (self.root, self.begun, self.ahead) = (root, false, names(rest));
        Ok(())
    }
}

fn names(path: &Path) -> VecDeque<OsString> {
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    parts.map(|part| part.as_os_str().to_owned()).collect()
}

/// Links that are followed for one path: what Linux does.
const LINKS: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn roots() -> [Root; 2] {
        [("/w", "/real/w"), ("/more", "/more")]
            .map(|(told, real)| Root { told: told.into(), real: real.into() })
    }

    /// The steps to a path, where these names are links.
    fn way(path: &str, links: &[(&str, &str)]) -> Result<String, Astray> {
        let roots = roots();
        let mut walk = Walk::new(&roots, Path::new(path))?;
        let mut way = String::new();
        loop {
            let step = walk.step()?;
            let (word, name, last) = match &step {
                Step::Enter(root) => (format!("root {root}"), None, false),
                Step::Down(name) => (format!("/{}", name.display()), Some(name), false),
                Step::Up => ("/..".to_owned(), None, false),
                Step::File(name) => (format!(" {}", name.display()), Some(name), true),
                Step::Folder => (" .".to_owned(), None, true),
            };
            if let Some((_, target)) = links.iter().find(|(link, _)| name.is_some_and(|name| name == link)) {
                walk.follow(&step, Path::new(target))?;
                way += "~";
                continue;
            }
            way += &word;
            if last {
                return Ok(way);
            }
        }
    }

    #[test]
    fn the_way_stays_inside_whatever_the_links_say() {
        let outside = Err(Astray::Outside);
        for (path, links, found) in [
            ("/w/a", &[][..], Ok("root 0 a")),
            ("/real/w/./b//a/", &[], Ok("root 0/b a")),
            ("/more/a", &[], Ok("root 1 a")),
            ("/w", &[], Ok("root 0 .")),
            ("/w/b/../a", &[], Ok("root 0/b/.. a")),
            ("/w/b/..", &[], Ok("root 0/b/.. .")),
            ("/wide/a", &[], outside),
            ("/w/../more/a", &[], outside),
            ("/w/b/../../w/a", &[], outside),
            ("/etc/passwd", &[], outside),
            ("/w/l", &[("l", "a")], Ok("root 0~ a")),
            ("/w/b/l", &[("l", "../a")], Ok("root 0/b~/.. a")),
            ("/w/b/l", &[("l", "../../a")], outside),
            ("/w/l/a", &[("l", "b/c")], Ok("root 0~/b/c a")),
            ("/w/l/../a", &[("l", "b/c")], Ok("root 0~/b/c/.. a")),
            ("/w/l", &[("l", "/etc/passwd")], outside),
            ("/w/l/a", &[("l", "/real/w/b")], Ok("root 0~root 0/b a")),
            ("/w/b/l/a", &[("l", "/more")], Ok("root 0/b~root 1 a")),
            ("/w/l/../a", &[("l", "/more")], outside),
            ("/w/l", &[("l", "l")], Err(Astray::Circle)),
            ("/w/l", &[("l", "m"), ("m", "/w/l")], Err(Astray::Circle)),
        ] {
            assert_eq!(
                way(path, links).map(|way| way.replace('~', "")),
                found.map(|way: &str| way.replace('~', "")),
                "{path} {links:?}"
            );
        }
    }
}
