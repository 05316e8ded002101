//! What a prompt asks for: its verbs, and the clauses that keep things as they are.

use crate::{
    ascii::{Ascii, Match, ascii},
    lint::analysis::{
        facts::{self, alike},
        quantity::Quantity,
        texts,
    },
};

pub use texts::sentence;

/// Whether a prompt uses the name of a field as a verb, in a sentence that does not keep things as they are.
pub fn is_told(said: &str, key: &str) -> bool {
    said.match_indices(key).any(|(at, _)| {
        let alone = !said[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '`' | '.'))
            && said[at + key.len()..].starts_with(' ');
        alone && !KEEPS.is_match(&said[clause(said, at)])
    })
}

/// Whether a prompt contains a verb in a clause that neither negates it nor keeps things as they are: `Resume it`.
pub fn is_ordered(said: &str, verb: &str) -> bool {
    let lower = said.to_ascii_lowercase();
    lower.match_indices(verb).any(|(at, _)| {
        let clause = &said[clause(said, at)];
        let is_word = !said[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '`' | '.'))
            && said[at + verb.len()..].starts_with([' ', '\n'])
            && !texts::in_quoted_phrase(said, at..at + verb.len());
        is_word && !KEEPS.is_match(clause) && !NEGATES.is_match(clause)
    })
}

/// Whether a prompt says `to VALUE`, in a sentence that does not keep things as they are.
pub fn is_asked(said: &str, value: &str) -> bool {
    // `scale it to three replicas`
    if let Some(word) = value.parse::<usize>().ok().and_then(|number| NUMBERS.get(number))
        && asks_for(said, word)
    {
        return true;
    }
    asks_for(said, value)
}

const NUMBERS: [&str; 11] = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

fn asks_for(said: &str, value: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':');
    said.match_indices(value).any(|(at, _)| {
        let (before, behind) = (&said[..at], &said[at + value.len()..]);
        let ends = behind.trim_start_matches('.').chars().next().is_none_or(|c| !part(c)) || behind.starts_with(". ");
        let sentence = sentence(said, at);
        let head = &said[sentence.start..at];
        let before = before.trim_end_matches(['`', '"', '\'']);
        ends && (TO.is_match(before) && CHANGES.is_match(head) || GIVES.is_match(before))
            && !KEEPS.is_match(&said[clause(said, at)])
            && !texts::in_quoted_phrase(said, at..at + value.len())
    })
}

/// The clause around a place, between commas: in `Set the mode to live, and leave the queue`, each has a meaning of its own.
pub fn clause(said: &str, at: usize) -> std::ops::Range<usize> {
    let whole = sentence(said, at);
    let start = said[whole.start..at].rfind(',').map_or(whole.start, |comma| whole.start + comma);
    let end = said[at..whole.end].find(',').map_or(whole.end, |comma| at + comma);
    start..end
}

/// Whether a prompt asks to create a resource of this name: the name is the object of the verb, with nothing in
/// between. `speaks` returns whether the text before a name may refer to this resource.
pub fn is_object(said: &str, name: &str, verbs: &Ascii, speaks: &dyn Fn(&str) -> bool) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    said.match_indices(name).any(|(at, _)| {
        if said[..at].ends_with(part) || said[at + name.len()..].starts_with(part) || !speaks(&said[..at]) {
            return false;
        }
        // `Merge "Add retry to client"` does not ask to add anything.
        if texts::in_quoted_phrase(said, at..at + name.len()) {
            return false;
        }
        let sentence = sentence(said, at);
        let head = &said[sentence.start..at];
        // In `the tag v1`, `tag` is not a verb.
        let is_noun = |verb: &Match<'_>| {
            let before = head[..verb.start()].trim_end().to_lowercase().replace('\n', " ");
            ["the", "a", "an", "this", "that", "its"]
                .iter()
                .any(|word| before == *word || before.ends_with(&format!(" {word}")))
        };
        let Some(verb) = verbs.find_iter(head).filter(|verb| !is_noun(verb)).last() else { return false };
        let between = head[verb.end()..].to_lowercase().replace('\n', " ");
        // `create a network a and a volume b`, `create a project with the key c`.
        let lists = [" and a ", " and an ", " with the key ", " with the name ", " with the id ", " with the slug "];
        let start = lists.iter().filter_map(|list| Some(between.rfind(list)? + list.len())).max().unwrap_or(0);
        let between = &between[start..];
        let away = [
            " in ", " into ", " from ", " of ", " on ", " to ", " for ", " using ", " by ", " that ", " which ",
            " and ", ",", " at ", " under ", ":", " within ", " above ", " below ", " before ", " after ", " behind ",
            " off ", " with ",
        ];
        // `make the service web reach its pods` changes a service; `make a service web` creates one.
        let restores = verb.as_str().eq_ignore_ascii_case("make")
            && (said[at..sentence.end].contains(" again") || between.starts_with(" the "));
        // In `Create a label x, and close the issue as not planned`, each clause has a meaning of its own.
        let start = head[..verb.start()].rfind(',').map_or(sentence.start, |comma| sentence.start + comma);
        let end = said[at..sentence.end].find(',').map_or(sentence.end, |comma| at + comma);
        let keeps = KEEPS.is_match(&said[start..end]) || AT_MOST_ONCE.is_match(&said[sentence]);
        !restores && !away.iter().any(|word| between.contains(word)) && !keeps
    })
}

/// Whether a prompt asks to change a field, in a sentence that contains its name.
pub fn is_changed(said: &str, key: &str) -> bool {
    let words = if alike("replicas", key) { vec!["replica".to_owned()] } else { crate::effects::words(key) };
    let Some(word) = words.last().filter(|word| word.len() > 3) else { return false };
    // ASCII lowercase keeps byte offsets valid: `İ` has more bytes in lowercase.
    said.to_ascii_lowercase().match_indices(word.as_str()).any(|(at, _)| {
        let whole = &said[sentence(said, at)];
        (CHANGES.is_match(whole) || WANTS.is_match(whole)) && !KEEPS.is_match(whole)
    })
}

/// Whether a prompt asks for a value in words that name its field: `let it allow 6 pods` for `pods`,
/// `at least 2 must stay available` for `minAvailable`.
pub fn is_wanted(said: &str, question: &facts::Fact, value: &str) -> bool {
    let around = question.parent.iter().filter(|_| question.key.eq_ignore_ascii_case("name"));
    let words: Vec<String> = std::iter::once(&question.key)
        .chain(around)
        .flat_map(|key| crate::effects::words(key))
        .filter(|word| {
            word.len() > 2
                && !matches!(word.as_str(), "name" | "value" | "min" | "max" | "spec" | "status" | "key" | "text")
        })
        .map(|word| word.trim_end_matches('s').to_owned())
        .collect();
    if words.is_empty() || matches!(value, "true" | "false") {
        return false;
    }
    // In `Do not change the replicas`, the number is only mentioned.
    let keeps = |at: usize| {
        let sentence = &said[sentence(said, at)].to_lowercase();
        words.iter().any(|word| sentence.contains(word.as_str())) && !texts::has_word(sentence, value)
    };
    if LEAVES_ALONE.find_iter(said).any(|found| keeps(found.start())) {
        return false;
    }
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let whole = said.match_indices(value).map(|(at, _)| at).filter(|at| {
        let (before, behind) = (&said[..*at], &said[at + value.len()..]);
        !before.ends_with(part) && !behind.starts_with(part) && !before.ends_with('.')
    });
    let mut places: Vec<usize> = whole.collect();
    // `256 MiB` equals 268435456.
    if let Some(amount) = Quantity::of_value(value).filter(|amount| places.is_empty() && amount.amount > 59.0) {
        let lower = said.to_ascii_lowercase();
        let told = Quantity::all(&lower).into_iter().filter(|(_, q)| !q.unit.is_empty() && q.is(&amount));
        places.extend(told.map(|(at, _)| at).filter(|at| said.is_char_boundary(*at)));
    }
    // `The team scaled it to 4 replicas`: the value is the state that the agent finds, and verify guards it.
    if places.iter().any(|at| is_past(&said[sentence(said, *at).start..*at])) {
        return false;
    }
    places.into_iter().any(|at| {
        let whole = sentence(said, at);
        let start = said[whole.start..at].rfind([',', ':']).map_or(whole.start, |mark| whole.start + mark + 1);
        let end = said[at..whole.end].find([',', ':']).map_or(whole.end, |mark| at + mark);
        let clause = said[start..end].to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
        let clause = clause.replace("stay available", "be available").replace("stay up", "be up");
        // The rest may be `…, as they are now`.
        let rest = said[end..whole.end].split_whitespace().collect::<Vec<_>>().join(" ");
        WANTS.is_match(&said[whole.clone()])
            && !KEEPS.is_match(&clause)
            && !AS_IT_IS.is_match(&rest)
            && !LIMIT_STAYS.is_match(&rest)
            && words.iter().any(|word| clause.contains(word.as_str()))
    })
}

/// Whether the text before a value says that it was set earlier: `the team scaled the deployment to `.
pub fn is_past(head: &str) -> bool {
    PAST.captures_iter(head).any(|found| {
        let before = head[..found.get(0).map_or(0, |all| all.start())].trim_end().to_ascii_lowercase();
        // `It must be scaled to 4`, `scaled to 4 it would start`.
        let words = before.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
        let last = words.rsplit(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
        !matches!(last, "" | "be" | "get" | "gets" | "is" | "are" | "when" | "if" | "once" | "and")
    })
}

pub static CREATES: Ascii = ascii(r"(?i)\b(?:create|define|declare|provision|set up)\b");

pub static WRITES: Ascii = ascii(r"(?i)\b(?:create|write|save)\b");

pub static TO: Ascii = ascii(
    r"(?i)\b(?:to|to be|as)\s+(?:the\s+)?(?:(?:new|image|version|tag|value|size|class|level|state|status|type|policy|mode|memory|storage|port|schedule|branch)\s+){0,2}$",
);

pub static GIVES: Ascii = ascii(r"(?i)\bgive (?:it|them)\s+$");

pub static CHANGES: Ascii = ascii(
    r"(?i)\b(?:set|change|update|scale|switch|move|mark|turn|raise|increase|lower|reduce|upgrade|bring|rename|put|patch|adjust|correct|convert|enlarge|expand|extend|grow|shrink|resize|widen|double|halve|bump|modify|edit|configure|replace|restore|limit|cap|roll|migrate|point|promote|pin)\b",
);

pub static WANTS: Ascii = ascii(
    r"(?i)\b(?:set|change|update|scale|switch|move|raise|increase|lower|reduce|let|allow|make|must|should|shall|give|gets?|meant|at least|at most|need|needs|want)\b",
);

pub static PAST: Ascii = ascii(
    r#"(?i)\b(?:scaled|raised|increased|lowered|reduced|changed|switched|moved|updated|upgraded|bumped|limited|configured)\s[^,;:]{0,60}?\bto\s+[`\"']?$"#,
);

/// `…, so do not raise the quota`: the value before it is a limit that stays.
pub static LIMIT_STAYS: Ascii = ascii(
    r"(?i)\b(?:do not|don't|never|must not|may not|cannot)\s+(?:change|raise|lower|increase|reduce|extend|exceed|touch|modify|edit)\s+(?:it|this|that|(?:the|its|this|that)\s+(?:\w+\s+)?(?:quota|limits?|budget|cap|maximum|minimum))\b",
);

pub static AS_IT_IS: Ascii = ascii(r"(?i)^\W*(?:just )?as (?:it|they|before|now)\b|\b(?:already|unchanged)\b");

pub static ADDS: Ascii = ascii(r"(?i)\b(?:append|add|insert|write|put|give|label|set)\b");

pub static MAKES: Ascii = ascii(r"(?i)\b(?:create|make|add|deploy|launch|provision|tag|set up|define|install)\b");
/// Verbs for what setup removes first, so that the agent can make it.
pub static MAKES_AGAIN: Ascii = ascii(
    r"(?i)\b(?:create|make|add|deploy|launch|provision|tag|set up|define|install|start|run|register|publish|write|save|open)\b",
);

pub static DELETES: Ascii =
    ascii(r"(?i)\b(?:delete|remove|uninstall|drop|destroy|tear down|get rid of|clean up|evict|terminate)\b");
pub static NEGATES: Ascii = ascii(r"(?i)\b(?:not|never|no|without|avoid)\b");

pub static AT_MOST_ONCE: Ascii = ascii(
    r"(?i)\bunless\s|\b(?:already|if|exists?|leave|leaves|keep|keeps|kept|stays?|remains?|unchanged|still|without)\b",
);

pub static KEEPS: Ascii = ascii(
    r"(?i)\b(?:leave|leaves|left (?:as|alone|unchanged|untouched|intact)|keep|keeps|kept|stay|stays|remain|remains|unchanged|still|already|not|never|without)\b",
);

pub static LEAVES_ALONE: Ascii =
    ascii(r"(?i)\b(?:do not|don't|never)\s+(?:change|touch|modify|alter|scale)\b|\b(?:leave|keep)\b");
pub static QUOTED: Ascii = ascii(r#"(?:"([^"\n]+)"|`([^`\n]+)`)"#);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_a_prompt_are_recognized() {
        assert!(is_asked("Set the mode to `live`, and leave the queue.", "live"));
        assert!(!is_asked("Set the queue to `a`, and leave the mode set to `live`.", "live"));
        assert!(is_asked("Set the mode to `live`. Leave the queue as it is.", "live"));
        assert!(is_asked("Scale it to 3 replicas and expose it", "3") && !is_asked("Scale it to 30 replicas", "3"));
        assert!(is_object("Create a role binding `web` in demo", "web", &MAKES, &|_| true));
        assert!(is_object("Create the branch \"retry\" of \"the client\"", "retry", &MAKES, &|_| true));
        assert!(!is_object("Merge \"Add retry to client\" (squash)", "retry", &MAKES, &|_| true));
        assert!(!is_object("Merge “Add retry”", "retry", &MAKES, &|_| true));
        assert!(!is_object("Merge 'Add retry to Ann's client'", "retry", &MAKES, &|_| true));
        assert!(is_object("In the users' list, don't stop: create the branch retry", "retry", &MAKES, &|_| true));
        assert!(!is_asked("Close the issue \"Set the mode to live again\"", "live"));
        assert!(!is_object("In the namespace demo, create a service for web", "web", &MAKES, &|_| true));
        assert!(!is_object("create a pod in demo", "demo", &MAKES, &|_| true));
    }
}
