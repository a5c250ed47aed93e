//! Words for a shell.

use std::fmt::Write;

/// A command line that a shell would split into these words again.
pub(crate) fn command_line(argv: &[String]) -> String {
    let words: Vec<_> = argv.iter().map(|word| shell_word(word)).collect();
    words.join(" ")
}

fn shell_word(word: &str) -> String {
    let safe = |letter: char| letter.is_alphanumeric() || "-_./:=@%+,~".contains(letter);
    if !word.is_empty() && !word.starts_with('~') && word.chars().all(safe) {
        return word.into();
    }
    if !word.contains(char::is_control) {
        return format!("'{}'", word.replace('\'', r"'\''"));
    }
    let mut quoted = String::from("$'");
    for letter in word.chars() {
        match letter {
            '\'' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted += "\\n",
            '\t' => quoted += "\\t",
            letter if letter.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
    }
    quoted + "'"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_spaces_command_lines_can_be_pasted() {
        for (word, shown) in [
            ("--acp", "--acp"),
            ("/opt/My Agents/a b", "'/opt/My Agents/a b'"),
            ("", "''"),
            ("'", r"''\'''"),
            ("~/x", "'~/x'"),
            ("$HOME", "'$HOME'"),
            ("工具", "工具"),
            ("a\tb\u{1b}[2J'\\", r"$'a\tb\u001b[2J\'\\'"),
        ] {
            assert_eq!(shell_word(word), shown);
        }
    }
}
