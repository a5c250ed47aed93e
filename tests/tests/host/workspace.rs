//! Files of a workspace, on a real disk, against what the system itself says of paths.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use agentline_blocking::workspace::carry_out;
use agentline_core::acp::RequestKey;
use agentline_core::host::{Access, FileError, FileWanted};
use agentline_tests::{Dice, dice};
use rustix::fs::{CWD, Mode, RenameFlags};
use tempfile::TempDir;

/// A workspace, and a folder beside it that is none of it.
struct Place {
    dir: TempDir,
}

const SECRET: &str = "secret";

impl Place {
    fn new() -> Self {
        let dir = TempDir::with_prefix("al").expect("a folder");
        let place = Self { dir };
        for folder in ["w", "w/a", "w/a/b", "out"] {
            fs::create_dir(place.path(folder)).expect(folder);
        }
        for file in ["w/f", "w/a/f", "w/a/b/f"] {
            fs::write(place.path(file), file).expect(file);
        }
        fs::write(place.path("out/f"), SECRET).expect("a file");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().expect("its real path").join(name)
    }

    fn wanted(&self, path: &Path, access: Access) -> FileWanted {
        FileWanted {
            request: serde_json::from_str::<RequestKey>("1").expect("a key"),
            session: "s".into(),
            roots: vec![self.path("w").to_str().expect("UTF-8").to_owned()],
            path: path.to_str().expect("UTF-8").to_owned(),
            access,
            limit: 1024,
        }
    }

    fn read(&self, path: &Path) -> Result<String, FileError> {
        carry_out(&self.wanted(path, Access::Read))
    }

    fn write(&self, path: &Path, text: &str) -> Result<String, FileError> {
        carry_out(&self.wanted(path, Access::Write(text.to_owned())))
    }

    /// What lies beside the workspace, all of it.
    fn outside(&self) -> Vec<(PathBuf, String)> {
        let folders = [self.path("out"), self.dir.path().to_owned()];
        let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder").flatten());
        let mut found: Vec<_> = entries
            .map(|entry| (entry.path(), fs::read_to_string(entry.path()).unwrap_or_default()))
            .collect();
        found.sort();
        found
    }

    /// Links in the folders of the workspace. `strays`: to anywhere.
    fn links(&self, dice: &mut Dice<'_>, strays: bool) {
        let inside = ["f", "a", "b", "a/b", "../f", "b/../f", "./a", "l0", "l1", "nothing"];
        for folder in ["w", "w/a", "w/a/b"] {
            for name in ["l0", "l1"] {
                let target: PathBuf = match dice.below(if strays { 4 } else { 2 }) {
                    0 => (*dice.pick(&inside)).into(),
                    1 => self.path("w").join(dice.pick(&["f", "a", "a/b/f"])),
                    2 => self.path("out").join(dice.pick(&["f", "new", "."])),
                    _ => (*dice.pick(&["../out/f", "../../out", "../../../out/f", "/etc", ".."])).into(),
                };
                symlink(target, self.path(folder).join(name)).expect("a link");
            }
        }
    }

    fn somewhere(&self, dice: &mut Dice<'_>, names: &[&str]) -> PathBuf {
        let mut path = self.path("w");
        for _ in 0..=dice.below(4) {
            path.push(dice.pick(names));
        }
        path
    }
}

/// What the system says of a path, if it is in the workspace.
fn reference(place: &Place, path: &Path) -> Result<String, FileError> {
    let real = path.canonicalize().map_err(|_| FileError::Missing)?;
    if !real.starts_with(place.path("w")) {
        return Err(FileError::Outside);
    }
    if real.is_dir() { Err(FileError::Folder) } else { Ok(fs::read_to_string(real).expect("a file")) }
}

#[test]
fn whatever_the_links_a_path_leads_where_the_system_says_or_nowhere() {
    let (mut read, mut strayed) = (0, 0);
    for seed in 0..400 {
        let bytes = dice::noise(seed, 4000);
        let mut dice = Dice::new(&bytes);
        let (place, strays) = (Place::new(), dice.once_in(2));
        place.links(&mut dice, strays);
        for _ in 0..40 {
            let path = place.somewhere(&mut dice, &["a", "b", "f", "l0", "l1", "..", "."]);
            // Without a dot at its end, which the system takes for a folder.
            let path: PathBuf = path.components().collect();
            let (ours, theirs) = (place.read(&path), reference(&place, &path));
            if let Ok(text) = &ours {
                assert_eq!(Ok(text), theirs.as_ref(), "{path:?}");
                assert_ne!(text, SECRET);
                read += 1;
            }
            if theirs == Err(FileError::Outside) {
                assert!(ours.is_err(), "{path:?}");
                strayed += 1;
            }
            // A path may leave the workspace and come back, which we do not follow; these cannot.
            let stays = !strays && !path.components().any(|part| part.as_os_str() == "..");
            if let (true, Ok(_)) = (stays, &theirs) {
                assert_eq!(ours, theirs, "{path:?}");
            }
        }
    }
    assert!(read > 1000 && strayed > 300, "{read} {strayed}");
}

#[test]
fn whatever_is_written_nothing_changes_outside() {
    let mut written = 0;
    for seed in 0..200 {
        let bytes = dice::noise(seed, 4000);
        let mut dice = Dice::new(&bytes);
        let place = Place::new();
        place.links(&mut dice, true);
        let before = place.outside();
        for turn in 0..20 {
            let path = place.somewhere(&mut dice, &["a", "b", "f", "l0", "l1", "..", "new", "deep"]);
            let text = format!("text {turn}");
            if place.write(&path, &text).is_ok() {
                assert_eq!(fs::read_to_string(&path).ok().as_ref(), Some(&text), "{path:?}");
                assert_eq!(place.read(&path), Ok(text));
                written += 1;
            }
        }
        assert_eq!(place.outside(), before, "seed {seed}");
    }
    assert!(written > 500, "{written}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_link_that_is_put_in_the_place_of_a_folder_meanwhile_leads_nowhere() {
    let place = Place::new();
    let (folder, link) = (place.path("w/a"), place.path("w/link"));
    symlink(place.path("out"), &link).expect("a link");
    let (over, before) = (AtomicBool::new(false), place.outside());
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE).expect("both");
            }
        });
        let file = folder.join("f");
        for turn in 0..3000 {
            assert_ne!(place.read(&file), Ok(SECRET.to_owned()));
            let _ = place.write(&file, &format!("text {turn}"));
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(place.outside(), before);
}

#[test]
fn what_is_no_text_of_that_size_is_told_by_its_name() {
    let place = Place::new();
    let work = place.path("w");
    fs::write(work.join("bytes"), [0xFF, 0xFE]).expect("a file");
    fs::write(work.join("full"), "x".repeat(1024)).expect("a file");
    fs::write(work.join("long"), "x".repeat(1025)).expect("a file");
    rustix::fs::mkfifoat(CWD, work.join("pipe"), Mode::RUSR | Mode::WUSR).expect("a pipe");
    symlink(work.join("loop"), work.join("loop")).expect("a link");
    symlink(place.path("out/new"), work.join("dangling")).expect("a link");
    for (name, error) in [
        ("bytes", FileError::NotText),
        ("long", FileError::TooLong(1024)),
        ("pipe", FileError::Special),
        ("a", FileError::Folder),
        ("f/x", FileError::Special),
        ("none", FileError::Missing),
        ("none/x", FileError::Missing),
        ("dangling", FileError::Outside),
        ("../out/f", FileError::Outside),
    ] {
        assert_eq!(place.read(&work.join(name)), Err(error), "{name}");
    }
    assert!(matches!(place.read(&work.join("loop")), Err(FileError::System(_))));
    assert_eq!(place.read(&work.join("full")).map(|text| text.len()), Ok(1024));
    for (name, error) in [
        ("pipe", FileError::Special),
        ("a", FileError::Folder),
        ("f/x", FileError::Special),
        ("dangling", FileError::Outside),
        ("new/../../out/x", FileError::Missing),
    ] {
        assert_eq!(place.write(&work.join(name), "x"), Err(error), "{name}");
    }
    assert!(!work.join("new").exists(), "no folder is made on a way that does not only lead down");
}

#[test]
fn a_file_keeps_its_permission_bits_and_a_reader_its_content() {
    let place = Place::new();
    let file = place.path("w/f");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o751)).expect("its bits");
    let mut reader = fs::File::open(&file).expect("a file");
    assert_eq!(place.write(&file, "new"), Ok(String::new()));
    let mode = fs::metadata(&file).expect("its facts").permissions().mode() & 0o7777;
    let mut old = String::new();
    std::io::Read::read_to_string(&mut reader, &mut old).expect("text");
    assert_eq!((mode, &*old, &*fs::read_to_string(&file).expect("text")), (0o751, "w/f", "new"));
    assert_eq!(fs::read_dir(place.path("w")).expect("a folder").count(), 2, "nothing is left beside it");
}
