//! A form or a page: one field after the other, and what is typed into each.

use agentline_core::acp::Json;
use agentline_core::acp::form::{Choice, Field, FieldKind, Form};
use agentline_core::subagent::{Reply, Wanted};
use serde_json::{Map, Value, json};

use super::{Answer, Entered};
use crate::output::{In, Notes, Paint, plain};

/// A question, as far as it is answered.
#[derive(Clone)]
pub(crate) struct Filling {
    message: String,
    wanted: Wanted,
    /// Likely answers, where words are asked for.
    candidates: Vec<Choice>,
    /// No is an answer.
    declines: bool,
    /// The field that is shown.
    at: usize,
    values: Map<String, Value>,
    /// What was wrong with what was typed last.
    wrong: Option<String>,
}

impl Filling {
    pub(crate) fn new(message: String, wanted: Wanted) -> Self {
        let (candidates, declines) = (Vec::new(), true);
        let mut filling =
            Self { message, wanted, candidates, declines, at: 0, values: Map::new(), wrong: None };
        filling.pass_over();
        filling
    }

    /// A question that is answered with words, such as these.
    pub(crate) fn words(message: &str, candidates: &[String]) -> Self {
        let schema =
            json!({"properties": {WORDS: {"type": "string", "title": message}}, "required": [WORDS]});
        let of_word = |word: &String| Choice { value: word.clone(), title: word.clone(), description: None };
        let candidates = candidates.iter().map(of_word).collect();
        let wanted = Wanted::Form { form: Form::read(&Json::new(&schema)) };
        Self { candidates, declines: false, ..Self::new(String::new(), wanted) }
    }

    /// The words, if it was answered with words.
    pub(crate) fn said(content: &Map<String, Value>) -> Option<&str> {
        content.get(WORDS).filter(|_| content.len() == 1)?.as_str()
    }

    /// What it is about.
    pub(crate) fn show(&self, notes: &Notes) {
        let Wanted::Form { form } = &self.wanted else { return };
        // It stands above all fields, and is asked itself where there are none.
        if self.field().is_some() && !self.message.is_empty() {
            title(&self.message, "", notes.paint()).iter().for_each(|line| notes.line(line));
        }
        let about = [&form.title, &form.description].into_iter().flatten();
        for line in about.flat_map(|text| text.lines()) {
            notes.line(&format!("      {}", In(notes.paint().dim, plain(line))));
        }
    }

    /// Every field, or the page, or what can be said, one a line.
    pub(crate) fn all(&self, paint: Paint) -> Vec<String> {
        match &self.wanted {
            Wanted::Url { url, .. } => vec![format!("page     {}", plain(url))],
            Wanted::Form { form } if self.declines => {
                let field = |field: &Field| {
                    let must = if field.required { "" } else { ", or nothing" };
                    let about = format!("field    {}  {}{must}", plain(&field.name), what(field, 0));
                    std::iter::once(about).chain(rows(listed(field), paint)).collect::<Vec<_>>()
                };
                form.fields.iter().flat_map(field).collect()
            }
            Wanted::Form { .. } => rows(&self.candidates, paint).collect(),
        }
    }

    /// The question, and what can be typed, one a line.
    pub(crate) fn choices(&self, paint: Paint) -> Vec<String> {
        let message = || title(&self.message, "", paint);
        match (&self.wanted, self.field()) {
            (Wanted::Url { url, .. }, _) => {
                let url = format!("      {}", In(paint.strong, plain(url)));
                message().into_iter().chain([url]).collect()
            }
            (Wanted::Form { .. }, None) => message(),
            (Wanted::Form { form }, Some(field)) => {
                let count = match self.declines {
                    true => format!(" ({} of {})", self.at + 1, form.fields.len()),
                    false => String::new(),
                };
                let mut lines = title(field.label(), &In(paint.dim, count).to_string(), paint);
                let about = field.description.iter().flat_map(|text| text.lines());
                lines.extend(about.map(|line| format!("      {}", In(paint.dim, plain(line)))));
                lines.extend(rows(listed(field), paint));
                lines.extend(rows(&self.candidates, paint));
                lines
            }
        }
    }

    /// What to do now.
    pub(crate) fn call(&self) -> String {
        let Some(field) = self.field() else {
            return match self.wanted {
                Wanted::Url { .. } => "y to go there yourself or n, then Enter".into(),
                Wanted::Form { .. } => "y or n, then Enter".into(),
            };
        };
        if let FieldKind::Unknown(_) = field.kind {
            return "it cannot be shown: - declines".to_owned();
        }
        let what = what(field, self.candidates.len());
        let or = match (&field.default, field.required) {
            (Some(default), _) => format!(", or nothing for {}", plain(&shown(default))),
            (None, false) => ", or nothing".to_owned(),
            (None, true) => String::new(),
        };
        let decline = if self.declines { "; - declines" } else { "" };
        format!("{what}{or}, then Enter{decline}")
    }

    /// What to say to an answer that is none.
    pub(crate) fn nudge(&self) -> String {
        match &self.wrong {
            Some(why) => format!("! not an answer: {}", plain(why)),
            None => format!("! not an answer: type {}", self.call()),
        }
    }

    /// What was typed.
    pub(crate) fn enter(&mut self, typed: &str) -> Entered {
        let typed = typed.trim();
        self.wrong = None;
        let Some(field) = self.field() else {
            return match &*typed.to_lowercase() {
                "y" | "yes" => Entered::Answer(self.accept()),
                "n" | "no" | "-" => Entered::Answer(self.denial()),
                _ => Entered::Nothing,
            };
        };
        if typed == "-" && self.declines {
            return Entered::Answer(self.denial());
        }
        let name = field.name.clone();
        let candidate = chosen(&self.candidates, typed);
        match value(field, candidate.as_deref().unwrap_or(typed)) {
            Ok(value) => self.values.extend(value.map(|value| (name, value))),
            Err(why) => {
                self.wrong = why;
                return Entered::Nothing;
            }
        }
        self.at += 1;
        self.pass_over();
        if self.field().is_some() { Entered::Next } else { Entered::Answer(self.accept()) }
    }

    /// No.
    pub(crate) const fn denial(&self) -> Answer {
        Answer::Reply(Reply::Decline)
    }

    fn accept(&self) -> Answer {
        let content = match self.wanted {
            Wanted::Form { .. } => Some(self.values.clone()),
            Wanted::Url { .. } => None,
        };
        Answer::Reply(Reply::Accept { content })
    }

    const fn form(&self) -> Option<&Form> {
        match &self.wanted {
            Wanted::Form { form } => Some(form),
            Wanted::Url { .. } => None,
        }
    }

    fn field(&self) -> Option<&Field> {
        self.form()?.fields.get(self.at)
    }

    /// Fields that nobody can fill in and nobody has to.
    fn pass_over(&mut self) {
        let cannot = |field: &Field| matches!(field.kind, FieldKind::Unknown(_)) && !field.required;
        while self.field().is_some_and(cannot) {
            self.at += 1;
        }
    }
}

/// What was typed into a field: a value, or nothing where that will do. The error says what was wrong, unless it was
/// nothing at all.
fn value(field: &Field, typed: &str) -> Result<Option<Value>, Option<String>> {
    if typed.is_empty() {
        return match &field.default {
            Some(default) => field.check(default).map(|()| Some(default.clone())).map_err(|_| None),
            None if !field.required => Ok(None),
            None => Err(None),
        };
    }
    let value = match &field.kind {
        FieldKind::Integer(_) => typed.parse::<i64>().map(Value::from).ok(),
        FieldKind::Number(_) => typed.parse::<f64>().ok().and_then(number),
        FieldKind::Bool => match &*typed.to_lowercase() {
            "y" | "yes" | "true" => Some(Value::Bool(true)),
            "n" | "no" | "false" => Some(Value::Bool(false)),
            _ => None,
        },
        FieldKind::One(of) => chosen(of, typed).map(Value::from),
        FieldKind::Some { of, .. } => {
            let words = typed.split([',', ' ']).filter(|word| !word.is_empty());
            words.map(|word| chosen(of, word)).collect::<Option<Vec<String>>>().map(Value::from)
        }
        FieldKind::Text { .. } | FieldKind::Unknown(_) => Some(Value::from(typed)),
    };
    let value = value.ok_or(None)?;
    field.check(&value).map_err(|unfit| Some(unfit.why))?;
    Ok(Some(value))
}

/// Whole numbers are written as such.
fn number(number: f64) -> Option<Value> {
    #[expect(clippy::cast_possible_truncation, reason = "it is as small as that")]
    let whole = (number.fract() == 0.0 && number.abs() < 1e15).then_some(number as i64);
    whole.map(Value::from).or_else(|| serde_json::Number::from_f64(number).map(Value::Number))
}

/// A choice by its number, its value or its title.
fn chosen(of: &[Choice], typed: &str) -> Option<String> {
    let by_number = || of.get(typed.parse::<usize>().ok()?.checked_sub(1)?);
    let is_meant = |choice: &&Choice| choice.value == typed || choice.title.eq_ignore_ascii_case(typed);
    of.iter().find(is_meant).or_else(by_number).map(|choice| choice.value.clone())
}

/// What goes into a field. `candidates`: likely texts.
fn what(field: &Field, candidates: usize) -> String {
    match &field.kind {
        FieldKind::Text { format: Some(format), .. } => format!("a text ({})", plain(format)),
        FieldKind::Text { .. } if candidates > 0 => format!("a text, or 1 to {candidates}"),
        FieldKind::Text { .. } => "a text".to_owned(),
        FieldKind::Integer(_) => "a whole number".to_owned(),
        FieldKind::Number(_) => "a number".to_owned(),
        FieldKind::Bool => "y or n".to_owned(),
        FieldKind::One(of) => format!("1 to {}", of.len()),
        FieldKind::Some { of, .. } => format!("some of 1 to {}, with commas", of.len()),
        FieldKind::Unknown(_) => "something that cannot be shown".to_owned(),
    }
}

/// A question in the first line, and what follows it.
fn title(text: &str, more: &str, paint: Paint) -> Vec<String> {
    let mut lines = text.lines().map(plain);
    let first = lines.next().unwrap_or_default();
    let first = format!("  {} {}{more}", In(paint.ask, "?"), In(paint.strong, first));
    std::iter::once(first).chain(lines.map(|line| format!("    {line}"))).collect()
}

fn listed(field: &Field) -> &[Choice] {
    match &field.kind {
        FieldKind::One(of) | FieldKind::Some { of, .. } => of,
        FieldKind::Text { .. }
        | FieldKind::Integer(_)
        | FieldKind::Number(_)
        | FieldKind::Bool
        | FieldKind::Unknown(_) => &[],
    }
}

fn rows(of: &[Choice], paint: Paint) -> impl Iterator<Item = String> {
    let widest = of.len().to_string().len();
    of.iter().enumerate().map(move |(at, choice)| {
        let about = choice.description.as_deref().map(|text| format!("  {}", In(paint.dim, plain(text))));
        let key = In(paint.strong, format!("{:widest$}", at + 1));
        format!("      {key}  {}{}", plain(choice.title.trim()), about.unwrap_or_default())
    })
}

/// A value as it would be typed.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(yes) => (if *yes { "y" } else { "n" }).to_owned(),
        Value::Array(values) => values.iter().map(shown).collect::<Vec<_>>().join(","),
        Value::Null | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// The one field of a question that is answered with words.
const WORDS: &str = "words";

#[cfg(test)]
mod tests {
    use super::*;

    fn filling(properties: &str, required: &[&str]) -> Filling {
        let schema = format!(r#"{{"properties":{properties},"required":{}}}"#, json!(required));
        let form = Form::read(&serde_json::from_str(&schema).expect("JSON"));
        Filling::new("Which?".into(), Wanted::Form { form })
    }

    /// What came of typing these lines: the values, or the last nudge.
    fn typed(filling: &mut Filling, lines: &[&str]) -> String {
        let mut last = String::new();
        for line in lines {
            last = match filling.enter(line) {
                Entered::Answer(Answer::Reply(reply)) => serde_json::to_string(&reply).expect("JSON"),
                Entered::Nothing => filling.nudge(),
                entered @ (Entered::Answer(_) | Entered::Next | Entered::ShowAll) => format!("{entered:?}"),
            };
        }
        last
    }

    #[test]
    fn each_field_is_asked_for_and_a_wrong_value_again() {
        let form = r#"{"n":{"type":"string","title":"Name","minLength":2},"k":{"type":"integer","maximum":9,"default":3},
            "b":{"type":"boolean"},"c":{"enum":["red","blue"]},"m":{"type":"array","items":{"enum":["a","b","c"]},"minItems":1}}"#;
        let mut asked = filling(form, &["n", "m"]);
        let lines: Vec<String> = asked.choices(Paint::default());
        assert_eq!(lines, ["  ? Name (1 of 5)"]);
        assert_eq!(asked.call(), "a text, then Enter; - declines");
        assert_eq!(typed(&mut asked, &[""]), "! not an answer: type a text, then Enter; - declines");
        assert_eq!(typed(&mut asked, &["x"]), "! not an answer: at least 2 characters");
        assert_eq!(typed(&mut asked, &["xy"]), "Next");
        assert_eq!(asked.call(), "a whole number, or nothing for 3, then Enter; - declines");
        assert_eq!(typed(&mut asked, &["10"]), "! not an answer: at most 9");
        assert_eq!(typed(&mut asked, &["", "YES"]), "Next");
        assert_eq!(asked.choices(Paint::default())[1..], ["      1  red", "      2  blue"]);
        assert_eq!(asked.call(), "1 to 2, or nothing, then Enter; - declines");
        let done = json!({"action": "accept", "content": {"n": "xy", "k": 3, "b": true, "c": "blue", "m": ["a", "c"]}});
        let reply: Value = serde_json::from_str(&typed(&mut asked, &["2", "1,c"])).expect("JSON");
        assert_eq!(reply, done);
    }

    #[test]
    fn nothing_is_sent_that_was_not_entered_and_one_can_always_decline() {
        let optional = r#"{"a":{"type":"string"},"b":{"type":"number"}}"#;
        assert_eq!(typed(&mut filling(optional, &[]), &["", ""]), r#"{"action":"accept","content":{}}"#);
        assert_eq!(typed(&mut filling(optional, &[]), &["x", "-"]), r#"{"action":"decline"}"#);
        assert_eq!(typed(&mut filling("{}", &[]), &["maybe"]), "! not an answer: type y or n, then Enter");
        assert_eq!(typed(&mut filling("{}", &[]), &["y"]), r#"{"action":"accept","content":{}}"#);
        assert_eq!(typed(&mut filling(r#"{"u":{"type":"null"}}"#, &[]), &["n"]), r#"{"action":"decline"}"#);
        let strange = filling(r#"{"u":{"type":"null"}}"#, &["u"]);
        assert_eq!(strange.call(), "it cannot be shown: - declines");
    }

    #[test]
    fn words_are_typed_or_chosen_by_their_number() {
        let candidates = ["the first".to_owned(), "the second".to_owned()];
        for (typed, said) in [("2", "the second"), ("3", "3"), ("neither", "neither"), ("-", "-")] {
            let mut asked = Filling::words("Which one?", &candidates);
            assert_eq!(
                asked.choices(Paint::default()),
                ["  ? Which one?", "      1  the first", "      2  the second"]
            );
            assert_eq!(asked.call(), "a text, or 1 to 2, then Enter");
            let Entered::Answer(Answer::Reply(Reply::Accept { content: Some(content) })) = asked.enter(typed)
            else {
                panic!("no answer: {typed}");
            };
            assert_eq!(Filling::said(&content), Some(said));
        }
        assert_eq!(Filling::words("Which one?", &[]).enter(""), Entered::Nothing);
    }
}
