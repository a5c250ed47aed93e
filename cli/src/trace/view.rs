//! `trace view`: a run as one page for a browser, complete in itself.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agentline_core::trace::Dir;
use agentline_os::file;
use serde::Serialize;

use super::kind::Kind;
use super::reading::{Reading, Row};
use super::span::{Lasting, Span};
use super::{View, read};
use crate::args::{Format, Global};
use crate::output::{Notes, object, plain, print};
use crate::prompt::of_file;
use crate::words::Problem;

pub(super) fn run(args: &View, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let (bytes, reading) = read(&args.trace)?;
    let rows: Vec<usize> = (0..reading.rows.len())
        .filter(|at| reading.rows.get(*at).is_some_and(|row| args.choice.is_listed(row)))
        .collect();
    let page = args.output.clone().unwrap_or_else(|| beside(&args.trace));
    let data = Data::new(&args.trace, &bytes, &reading, &rows);
    let written = file::create_private(&page, args.force).map_err(|error| {
        let hint = if error.is_in_the_way() { "--force replaces it, -o names another" } else { "-o FILE" };
        of_file("-o", &page, error).hint(hint)
    })?;
    write(written, &data).map_err(|error| of_file("-o", &page, error))?;
    #[derive(Serialize)]
    struct Written<'a> {
        page: &'a Path,
        rows: usize,
    }
    if global.format() == Format::Text && !global.quiet {
        notes.line(&format!("◦ rows: {}; open the page in a browser", rows.len()));
    }
    Ok(print(&match global.format() {
        Format::Json => object("page", &Written { page: &page, rows: rows.len() }),
        Format::Text => format!("{}\n", plain(&page.display().to_string())),
    }))
}

/// Where the page goes that nobody has named.
fn beside(trace: &Path) -> PathBuf {
    let mut name = trace.as_os_str().to_owned();
    name.push(".html");
    name.into()
}

fn write(to: impl Write, data: &Data) -> io::Result<()> {
    let mut to = io::BufWriter::new(to);
    let mut rest = PAGE;
    for (place, text) in [("@STYLE@", Some(STYLE)), ("@DATA@", None), ("@SCRIPT@", Some(SCRIPT))] {
        let (before, after) = rest.split_once(place).unwrap_or((rest, ""));
        to.write_all(before.as_bytes())?;
        match text {
            Some(text) => to.write_all(text.as_bytes())?,
            None => serde_json::to_writer(Inert(&mut to), data)?,
        }
        rest = after;
    }
    to.write_all(rest.as_bytes())?;
    to.flush()
}

/// JSON that a page can hold: what could end or begin an element is written as an escape. These letters stand in
/// strings only, where an escape means the same.
struct Inert<W>(W);

impl<W: Write> Write for Inert<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'<' | b'>' | b'&')) {
            let (before, after) = rest.split_at(at);
            self.0.write_all(before)?;
            if let Some((byte, after)) = after.split_first() {
                write!(self.0, "\\u{byte:04x}")?;
                rest = after;
            }
        }
        self.0.write_all(rest)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// What the page shows.
#[derive(Serialize)]
struct Data<'a> {
    name: String,
    channel: &'a str,
    role: &'a str,
    /// Milliseconds of the wall clock at the start, since the Unix epoch.
    start: u64,
    kinds: [Kind; Kind::ALL.len()],
    hidden: Vec<Kind>,
    sessions: Vec<&'a str>,
    rows: Vec<Listed<'a>>,
    spans: Vec<Placed<'a>>,
    lines: BTreeMap<usize, Cow<'a, str>>,
}

/// A row as an array, for there are many.
#[derive(Serialize)]
struct Listed<'a>(
    /// Its line.
    usize,
    /// Its time, in microseconds.
    u64,
    Option<Dir>,
    Kind,
    /// Its link.
    Option<u32>,
    /// Its session, by the place in the list.
    Option<usize>,
    /// Its title.
    &'a str,
    /// Its text.
    &'a str,
    /// What it took.
    Option<u64>,
    /// What was waited for.
    Option<&'a str>,
    /// Whether it is bad.
    bool,
);

/// A span by the rows that are shown, as an array.
#[derive(Serialize)]
struct Placed<'a>(
    Lasting,
    /// Its first row.
    usize,
    /// Its last row.
    usize,
    /// Whether it has an end.
    bool,
    /// Its label.
    &'a str,
    /// Its status.
    &'a str,
    /// Whether it is bad.
    bool,
    /// Whether the application owes its end.
    bool,
    /// Its session, by the place in the list.
    Option<usize>,
);

impl<'a> Data<'a> {
    /// `rows`: those that are shown.
    fn new(path: &Path, bytes: &'a [u8], reading: &'a Reading, rows: &[usize]) -> Self {
        let header = &reading.header;
        let sessions = reading.sessions();
        let places: BTreeMap<&str, usize> = sessions.iter().enumerate().map(|(at, id)| (*id, at)).collect();
        let place = |id: &'a Option<String>| id.as_deref().and_then(|id| places.get(id).copied());
        let shown: Vec<&Row> = rows.iter().filter_map(|at| reading.rows.get(*at)).collect();
        let line = |number: usize| {
            let line = reading.lines.get(number - 1).and_then(|line| bytes.get(line.clone()));
            (number, String::from_utf8_lossy(line.unwrap_or_default()))
        };
        let listed = |row: &&'a Row| {
            let Row { line, t, dir, kind, link, session, title, text, took, waited, is_bad } = *row;
            let session = place(session);
            Listed(*line, *t, *dir, *kind, *link, session, title, text, *took, waited.as_deref(), *is_bad)
        };
        // Of what lasts while no row is shown there is nothing to see.
        let placed = |span: &'a Span| {
            let first = rows.partition_point(|row| *row < span.first);
            let after = span.last.map_or(rows.len(), |last| rows.partition_point(|row| *row <= last));
            let Span { kind, last, label, status, is_bad, is_ours, session, .. } = span;
            let has_end = last.is_some();
            (first < after).then(|| {
                Placed(*kind, first, after - 1, has_end, label, status, *is_bad, *is_ours, place(session))
            })
        };
        Self {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            channel: &header.channel,
            role: &header.role,
            start: u64::try_from(header.unix.as_millis()).unwrap_or(u64::MAX),
            kinds: Kind::ALL,
            hidden: Kind::ALL.into_iter().filter(|kind| !kind.is_shown()).collect(),
            rows: shown.iter().map(listed).collect(),
            spans: reading.spans.iter().filter_map(placed).collect(),
            lines: shown.iter().map(|row| line(row.line)).collect(),
            sessions,
        }
    }
}

/// The page around its style, its data and its script. Its policy names the two by their hashes, so that nothing else
/// runs, whatever a trace holds.
const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use quickcheck::quickcheck;
    use serde_json::{Value, json};

    use super::*;

    /// A page of a trace that holds these texts wherever a peer, an agent or an application can put them.
    fn page(texts: &[String]) -> String {
        let text = |at: usize| texts.get(at).map_or("", String::as_str);
        let mut file = json!({
            "format": 1, "channel": text(0), "role": text(1), "version": text(2), "t": 0,
            "unix": { "secs": 0, "nanos": 0 }, "config": {},
        })
        .to_string();
        for text in texts {
            for method in ["session/prompt", "session/update", "session/request_permission", text] {
                let update = json!({ "sessionUpdate": "tool_call", "toolCallId": text, "title": text });
                let params = json!({ "sessionId": text, "prompt": text, "update": update });
                let line = json!({ "id": text, "method": method, "params": params }).to_string();
                let _ = write!(file, "\n{}", json!({ "t": 0, "link": 0, "dir": "in", "line": line }));
            }
            let _ = write!(file, "\n{}", json!({ "t": 0, "dir": "event", "value": { text: text } }));
            let _ = write!(file, "\n{}", json!({ "t": 0, "link": 0, "dir": "err", "text": text }));
            let _ = write!(file, "\n{text}");
        }
        let reading = Reading::new(file.as_bytes()).expect("a trace");
        let rows: Vec<usize> = (0..reading.rows.len()).collect();
        let mut page = Vec::new();
        let name = texts.first().cloned().unwrap_or_default().replace('/', "_");
        write(&mut page, &Data::new(Path::new(&name), file.as_bytes(), &reading, &rows)).expect("written");
        String::from_utf8(page).expect("UTF-8")
    }

    /// What stands in the page between the place of the data and its end.
    fn data(page: &str) -> &str {
        let (_, rest) = page.split_once(r#"id="data">"#).expect("data");
        rest.split_once("</script>").expect("an end").0
    }

    quickcheck! {
        fn c3_whatever_a_trace_holds_is_data_and_no_part_of_the_page(texts: Vec<String>, picks: Vec<usize>) -> bool {
            let evil = ["</script><script>", "<!--", "-->", "]]>", "&lt;", "@DATA@", "@SCRIPT@", "\u{2028}", "\"", "\\"];
            let evil = picks.iter().take(4).map(|pick| evil[pick % evil.len()].to_owned());
            let texts: Vec<String> = texts.into_iter().take(4).chain(evil).collect();
            let (page, empty) = (page(&texts), page(&[]));
            let said = data(&page);
            let frame = |page: &str| page.replacen(data(page), "", 1);
            let read: Value = serde_json::from_str(said).expect("JSON");
            !said.contains(['<', '>', '&'])
                && frame(&page) == frame(&empty)
                && texts.iter().all(|text| read["rows"].to_string().contains(&json!(super::super::said::short(text)).to_string()))
        }
    }

    #[test]
    fn nothing_but_the_style_and_the_script_of_the_page_may_run() {
        for (directive, text) in [("script-src", SCRIPT), ("style-src", STYLE)] {
            let hash = STANDARD.encode(sha256(text.as_bytes()));
            let policy = format!("{directive} 'sha256-{hash}'");
            assert!(PAGE.contains(&policy), "page.html must say {policy}");
        }
        assert!(PAGE.contains("default-src 'none'"));
        for markup in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("]
        {
            assert!(!SCRIPT.contains(markup), "{markup}");
        }
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
        assert!(PAGE.len() + STYLE.len() + SCRIPT.len() < 300 << 10);
    }

    /// FIPS 180-4, 6.2.
    fn sha256(text: &[u8]) -> Vec<u8> {
        let primes = (2u32..).filter(|n| (2..*n).all(|d| n % d > 0)).map(f64::from);
        // The first bits of the fractional parts of roots.
        let bits = |root: f64| (root.fract() * 4_294_967_296.0) as u32;
        let rounds: Vec<u32> = primes.clone().take(64).map(|prime| bits(prime.cbrt())).collect();
        let mut state: Vec<u32> = primes.take(8).map(|prime| bits(prime.sqrt())).collect();
        let mut padded = text.to_vec();
        padded.push(0x80);
        padded.resize(padded.len().next_multiple_of(64), 0);
        if padded.len() - text.len() < 9 {
            padded.resize(padded.len() + 64, 0);
        }
        let end = padded.len() - 8;
        padded[end..].copy_from_slice(&(text.len() as u64 * 8).to_be_bytes());
        for block in padded.chunks(64) {
            let mut w: Vec<u32> = block
                .chunks(4)
                .map(|word| word.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
                .collect();
            for at in 16..64 {
                let (a, b) = (w[at - 15], w[at - 2]);
                let low = a.rotate_right(7) ^ a.rotate_right(18) ^ (a >> 3);
                let high = b.rotate_right(17) ^ b.rotate_right(19) ^ (b >> 10);
                w.push(w[at - 16].wrapping_add(low).wrapping_add(w[at - 7]).wrapping_add(high));
            }
            let mut s = state.clone();
            for at in 0..64 {
                let high = s[4].rotate_right(6) ^ s[4].rotate_right(11) ^ s[4].rotate_right(25);
                let chosen = (s[4] & s[5]) ^ (!s[4] & s[6]);
                let one =
                    s[7].wrapping_add(high).wrapping_add(chosen).wrapping_add(rounds[at]).wrapping_add(w[at]);
                let low = s[0].rotate_right(2) ^ s[0].rotate_right(13) ^ s[0].rotate_right(22);
                let two = low.wrapping_add((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
                s.rotate_right(1);
                s[4] = s[4].wrapping_add(one);
                s[0] = one.wrapping_add(two);
            }
            state.iter_mut().zip(s).for_each(|(sum, part)| *sum = sum.wrapping_add(part));
        }
        state.iter().flat_map(|word| word.to_be_bytes()).collect()
    }
}
