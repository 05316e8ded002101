//! The words without which a pattern cannot match.

use std::{cmp::Reverse, iter::Peekable, str::Chars};

/// Texts of which each match of a pattern contains at least one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Needed {
    any: Vec<Word>,
    /// Whether letters of either case match.
    fold: bool,
}

/// A text, in lower case if case does not matter.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Word {
    text: String,
    /// The place of the character to search for.
    rare: usize,
}

/// With more alternatives, the search takes about as long as that of the pattern.
const MOST: usize = 48;

impl Needed {
    /// Reads them from a pattern; `None` if there is nothing that every match contains, or the pattern has unusual parts.
    pub(super) fn of(pattern: &str) -> Option<Self> {
        let (flags, rest) = match pattern.strip_prefix("(?").and_then(|rest| rest.split_once(')')) {
            Some((flags, rest)) if flags.bytes().all(|b| b"imu-".contains(&b)) => (flags, rest),
            _ => ("", pattern),
        };
        let fold = flags.contains('i');
        let mut reader = Reader { rest: rest.chars().peekable(), fold, has_flags: false };
        let any = reader.alternatives()?;
        let is_whole = reader.rest.next().is_none();
        let is_known = is_whole && !reader.has_flags && any.len() <= MOST;
        is_known.then(|| Self { any: any.into_iter().map(Word::new).collect(), fold })
    }

    /// Whether a text contains one of them.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.any.iter().any(|word| word.is_in(text.as_bytes(), self.fold))
    }
}

/// Characters of English texts and scripts from the most to the least frequent; all others are less frequent.
const FREQUENT: &[u8] = b"_- etaoisnrldhcupmfgywbvkjxqz";

impl Word {
    fn new(text: String) -> Self {
        let rarity =
            |byte: u8| FREQUENT.iter().position(|known| *known == byte.to_ascii_lowercase()).unwrap_or(usize::MAX);
        let rare = text.bytes().enumerate().max_by_key(|(_, byte)| rarity(*byte)).map_or(0, |(at, _)| at);
        Self { text, rare }
    }

    fn is_in(&self, text: &[u8], fold: bool) -> bool {
        let word = self.text.as_bytes();
        let (rare, is_same): (u8, fn(&[u8], &[u8]) -> bool) = match fold {
            true => (word[self.rare].to_ascii_uppercase(), <[u8]>::eq_ignore_ascii_case),
            false => (word[self.rare], |a, b| a == b),
        };
        let Some(last) = text.len().checked_sub(word.len()) else { return false };
        let places = memchr::memchr2_iter(word[self.rare], rare, &text[self.rare..=last + self.rare]);
        places.into_iter().any(|start| is_same(&text[start..start + word.len()], word))
    }
}

/// Reads a pattern. Each method returns texts of which every match of what was read contains one; `None` if there are none.
struct Reader<'p> {
    rest: Peekable<Chars<'p>>,
    fold: bool,
    /// Whether flags change within the pattern.
    has_flags: bool,
}

/// A part of a pattern, without what says how often it is repeated.
enum Part {
    /// A character that stands for itself.
    Literal(char),
    /// It matches no characters: `\b`, `^`.
    Place,
    Class,
    /// Something in parentheses.
    Group(Option<Vec<String>>),
}

impl Reader<'_> {
    /// `a|b`, up to the end of the group.
    fn alternatives(&mut self) -> Option<Vec<String>> {
        let mut all = self.sequence();
        while self.rest.next_if_eq(&'|').is_some() {
            let next = self.sequence();
            all = all.zip(next).map(|(mut all, next)| {
                all.extend(next);
                all
            });
        }
        all
    }

    /// Parts one after the other. A few long texts are better than many, and than short ones.
    fn sequence(&mut self) -> Option<Vec<String>> {
        let (mut best, mut run): (Option<Vec<String>>, String) = (None, String::new());
        let rank = |texts: &Vec<String>| {
            let shortest = texts.iter().map(String::len).min().unwrap_or(0);
            (shortest.min(4), Reverse(texts.len()), shortest)
        };
        let keep = |best: &mut Option<Vec<String>>, texts: Vec<String>| {
            let is_better = best.as_ref().is_none_or(|best| rank(best) < rank(&texts));
            if is_better && texts.iter().all(|text| !text.is_empty()) {
                *best = Some(texts);
            }
        };
        while let Some(part) = self.part() {
            let (least, once) = self.repetition();
            match part {
                Part::Place => {}
                Part::Literal(c) if least && once => run.push(if self.fold { c.to_ascii_lowercase() } else { c }),
                part => {
                    // `ab+`: `b` occurs, and what follows it is not next to `a`.
                    if let (Part::Literal(c), true) = (&part, least) {
                        run.push(if self.fold { c.to_ascii_lowercase() } else { *c });
                    }
                    keep(&mut best, vec![std::mem::take(&mut run)]);
                    if let (Part::Group(Some(texts)), true) = (part, least) {
                        keep(&mut best, texts);
                    }
                }
            }
        }
        keep(&mut best, vec![run]);
        best
    }

    /// The next part; `None` at the end of an alternative.
    fn part(&mut self) -> Option<Part> {
        if matches!(self.rest.peek()?, '|' | ')') {
            return None;
        }
        Some(match self.rest.next()? {
            '^' | '$' => Part::Place,
            '.' => Part::Class,
            '[' => {
                self.class();
                Part::Class
            }
            '\\' => match self.rest.next()? {
                'b' | 'B' => Part::Place,
                'n' => Part::Literal('\n'),
                't' => Part::Literal('\t'),
                c if c.is_ascii_alphanumeric() => {
                    // `\x22`
                    if c == 'x' {
                        self.rest.nth(1);
                    }
                    Part::Class
                }
                c => Part::Literal(c),
            },
            '(' => {
                self.group_head();
                let texts = self.alternatives();
                self.rest.next();
                Part::Group(texts)
            }
            c if c.is_ascii() => Part::Literal(c),
            // Cases of other letters are not folded.
            _ => Part::Class,
        })
    }

    /// `?:`, `?<name>`, `?P<name>`, `?-u:`.
    fn group_head(&mut self) {
        if self.rest.next_if_eq(&'?').is_none() {
            return;
        }
        let mut head = String::new();
        while let Some(c) = self.rest.next_if(|c| *c != ')') {
            head.push(c);
            let is_named = head.starts_with('<') || head.starts_with("P<");
            if is_named && c == '>' || !is_named && c == ':' {
                break;
            }
        }
        self.has_flags |= !(matches!(head.as_str(), ":" | "-u:") || head.ends_with('>'));
    }

    /// `[^]a-z[0-9]]`, without its first bracket.
    fn class(&mut self) {
        self.rest.next_if_eq(&'^');
        self.rest.next_if_eq(&']');
        while let Some(c) = self.rest.next() {
            match c {
                ']' => return,
                '\\' => drop(self.rest.next()),
                '[' => self.class(),
                _ => {}
            }
        }
    }

    /// `?`, `*`, `+`, `{2,5}`, each perhaps lazy. Returns whether the part before it occurs at least once, and whether exactly once.
    fn repetition(&mut self) -> (bool, bool) {
        let (mut least, mut once) = (true, true);
        // `a{2}{0,3}` repeats what is repeated.
        while let Some(again) = self.repeated() {
            (least, once) = (least && again, false);
        }
        (least, once)
    }

    /// One repetition, if there is one: whether it is at least one time.
    fn repeated(&mut self) -> Option<bool> {
        let found = match self.rest.peek() {
            Some('?' | '*') => false,
            Some('+') => true,
            Some('{') => {
                let mut least = String::new();
                self.rest.next();
                while let Some(c) = self.rest.next_if(char::is_ascii_digit) {
                    least.push(c);
                }
                while self.rest.next_if(|c| *c != '}').is_some() {}
                least.parse::<u32>().is_ok_and(|least| least > 0)
            }
            _ => return None,
        };
        self.rest.next();
        self.rest.next_if_eq(&'?');
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use proptest::{prelude::*, strategy::ValueTree, string::string_regex, test_runner::TestRunner};

    use super::*;

    /// Texts with letters that only Unicode regards as cases of ASCII letters. In patterns of this program, they are not.
    fn is_unicode(text: &str) -> bool {
        text.contains(['\u{212a}', '\u{17f}'])
    }

    /// The constant patterns in the sources of this program.
    #[expect(clippy::disallowed_methods, reason = "a test reads the sources")]
    fn own_patterns(dir: &Path, found: &mut Vec<String>) {
        let constant = regex_lite::Regex::new(r##"(?s)\bascii\(\s*r(?:"([^"]*)"|#"(.*?)"#)"##).unwrap();
        for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                own_patterns(&entry, found);
            } else if entry.extension().is_some_and(|end| end == "rs") {
                let text = fs::read_to_string(&entry).unwrap();
                let all = constant.captures_iter(&text).filter_map(|found| found.get(1).or_else(|| found.get(2)));
                found.extend(all.map(|pattern| pattern.as_str().to_owned()));
            }
        }
    }

    /// A pattern without the parts that match no characters, for which no texts can be generated.
    fn without_places(pattern: &str) -> String {
        let (mut out, mut in_class) = (String::new(), false);
        let pattern = pattern.replace(r"(?-u:\b)", "");
        let mut rest = pattern.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '\\' if !in_class && rest.next_if_eq(&'b').is_some() => {}
                '\\' => out.extend([c].into_iter().chain(rest.next())),
                '^' | '$' if !in_class => {}
                '[' => {
                    in_class = true;
                    out.push(c);
                    out.extend(rest.next_if_eq(&'^'));
                }
                c => {
                    in_class &= c != ']';
                    out.push(c);
                }
            }
        }
        out
    }

    #[test]
    fn texts_that_match_patterns_of_this_program_have_what_is_needed() {
        let (mut patterns, mut runner) = (Vec::new(), TestRunner::deterministic());
        own_patterns(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut patterns);
        let mut needing = 0;
        for pattern in &patterns {
            let Some(needed) = Needed::of(pattern) else { continue };
            needing += 1;
            let texts = string_regex(&without_places(pattern)).unwrap();
            let texts = std::iter::repeat_with(|| texts.new_tree(&mut runner).unwrap().current());
            for text in texts.take(16).filter(|text| !is_unicode(text)) {
                assert!(needed.is_in(&text), "{pattern:?} {needed:?} {text:?}");
            }
        }
        assert!(patterns.len() > 200 && needing * 2 > patterns.len(), "{needing} of {}", patterns.len());
    }

    /// Patterns of the forms that are read.
    fn pattern() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            4 => "[a-dA-C_/=' -]{1,4}",
            1 => prop::sample::select(vec![r"\.", r"\(", r"\[", r"\w", r"\d", r"\s", r"\x22", r"\n", "."]).prop_map(str::to_owned),
            1 => prop::sample::select(vec!["[^]a]", "[]b]", r"[\w\]-]", "[a-c]", r"[^'\n]", "é"]).prop_map(str::to_owned),
        ];
        let repeated = |inner: String, how: usize| {
            let how = ["", "", "?", "*", "+", "{2}", "{0,2}", "{1,}", "??", "+?"][how];
            let is_one = inner.chars().count() == 1 || inner.starts_with('(');
            if is_one || how.is_empty() { inner + how } else { format!("(?:{inner}){how}") }
        };
        leaf.prop_recursive(3, 24, 4, move |inner| {
            let parts = prop::collection::vec((inner.clone(), 0..10_usize), 1..4)
                .prop_map(move |parts| parts.into_iter().map(|(part, how)| repeated(part, how)).collect::<String>());
            let group =
                (prop::collection::vec(parts.clone(), 1..4), prop::sample::select(vec!["(", "(?:", "(?P<n>", "(?<n>"]))
                    .prop_map(|(parts, open)| format!("{open}{})", parts.join("|")));
            prop_oneof![parts, group]
        })
    }

    proptest! {
        #[test]
        fn what_matches_has_what_is_needed(
            (pattern, text) in (prop::bool::ANY, pattern()).prop_filter_map("no such group twice", |(fold, pattern)| {
                let pattern = if fold { format!("(?i){pattern}") } else { pattern };
                let texts = string_regex(&pattern).ok()?;
                Some((Just(pattern), texts))
            }).prop_flat_map(|both| both),
            before in "[a-z ]{0,3}",
        ) {
            prop_assume!(!is_unicode(&text));
            let text = before + &text;
            let needed = Needed::of(&pattern);
            prop_assert!(needed.as_ref().is_none_or(|needed| needed.is_in(&text)), "{pattern:?} {needed:?} {text:?}");
        }
    }

    #[test]
    fn a_few_long_texts_are_needed() {
        let needed = |pattern: &str| {
            let texts = |needed: Needed| needed.any.into_iter().map(|word| word.text).collect::<Vec<_>>().join(" ");
            Needed::of(pattern).map(texts)
        };
        assert_eq!(needed(r"(?i)\b(?:Create|add)\b"), Some("create add".to_owned()));
        assert_eq!(needed(r"\blength\s*(?:==|!=|[<>]=?)\s*(\d+)"), Some("length".to_owned()));
        assert_eq!(needed(r"(?:ab|c)d?(?:e|fgh)+x"), Some("x".to_owned()));
        assert_eq!(needed(r"(?im)^a|\bb"), Some("a b".to_owned()));
        assert_eq!(needed(r"a*|b"), None);
        assert_eq!(needed(r"\w+\s"), None);
        assert_eq!(needed(r"ab(?i:c)"), None);
    }

    #[test]
    fn letters_of_either_case_are_found() {
        let is_in = |pattern: &str, text: &str| Needed::of(pattern).is_some_and(|needed| needed.is_in(text));
        assert!(is_in("(?i)Select", "seLECT") && is_in("(?i)select", "x Select") && is_in("(?i)a-b", "..A-B"));
        assert!(!is_in("(?i)select", "selec") && !is_in("select", "Select") && !is_in("(?i)select", ""));
    }
}
