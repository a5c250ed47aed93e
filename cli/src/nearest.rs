//! What a mistyped word may have meant.

/// The word that is most like another one, if one is like it at all.
pub(crate) fn of<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let likeness = |known: &str| {
        let known = known.to_lowercase();
        // Two letters in the wrong order weigh too much in short words.
        let is_slip = word.len() > 2 && strsim::osa_distance(&word, &known) == 1;
        if is_slip { SLIP } else { strsim::jaro_winkler(&word, &known) }
    };
    let rated = known.into_iter().map(|known| (likeness(known), known)).filter(|(like, _)| *like >= ALIKE);
    rated.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, known)| known)
}

/// One letter missing, added, changed or in the place of its neighbour.
const SLIP: f64 = 0.95;
/// From here on two words are taken for one: `geminy` and `gemini`, not `codex` and `cursor`.
const ALIKE: f64 = 0.85;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_other_words_are_not() {
        let known = ["gemini", "opencode", "cursor", "qwen-code", "goose"];
        for (word, meant) in [
            ("geminy", Some("gemini")),
            ("Gemini", Some("gemini")),
            ("gemnii", Some("gemini")),
            ("gose", Some("goose")),
            ("open-code", Some("opencode")),
            ("qwencode", Some("qwen-code")),
            ("codex", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(of(word, known), meant, "{word}");
        }
    }
}
