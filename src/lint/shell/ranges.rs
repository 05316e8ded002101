//! Ranges for numbers whose unit is that of the command, and which have a value for "none": `TTL` prints seconds, `PTTL` milliseconds,
//! and both -1 for a key that never expires.

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics},
    effects::asked::Demand,
    hir::{Arg, ArgKind, Def},
    lint::{
        TaskView,
        analysis::{checked_resource, quantity::Quantity, texts},
        prompt::disagrees::PROMPT_DISAGREES,
        shell::comparison::COMPARES_OTHERWISE,
    },
    source::Span,
};

/// The numbers that verify accepts from a command.
struct Range {
    /// In capitals.
    command: String,
    /// Bounds that are themselves accepted.
    low: Option<f64>,
    high: Option<f64>,
    /// Whether -1 is refused by another check.
    refuses_none: bool,
    span: Span,
}

impl Range {
    fn accepts(&self, number: f64) -> bool {
        self.low.is_none_or(|low| low <= number) && self.high.is_none_or(|high| number <= high)
    }

    /// The length of the command's unit in seconds, and its name.
    fn unit(&self) -> (f64, &'static str) {
        if self.command.starts_with('P') { (1e-3, "milliseconds") } else { (1.0, "seconds") }
    }
}

static ASKS: Ascii = ascii(r"(?i)\b(?:redis|valkey)-cli\b[^\n|;&]*?\s(p?ttl)\s");

fn mentions_ttl(text: &str) -> bool {
    text.as_bytes().windows(3).any(|word| word.eq_ignore_ascii_case(b"ttl"))
}

/// A range that includes -1, for a key that is meant to expire.
pub fn with_none(view: &TaskView<'_>, out: &mut Diagnostics) {
    for range in ranges(view) {
        let some = range.high.is_none_or(|high| high > 0.0);
        if some && range.accepts(-1.0) && range.high.is_some() && !range.refuses_none {
            out.push(
                Diagnostic::new(
                    &COMPARES_OTHERWISE,
                    range.span,
                    format!("this accepts -1, which `{}` prints for a key that never expires", range.command),
                )
                .help("require a number above 0 as well: `above: 0`, `[ \"$ttl\" -gt 0 ]`"),
            );
        }
    }
}

/// A range that contains none of the times of the prompt.
pub fn other_time(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let ranges = ranges(view);
    if ranges.is_empty() {
        return;
    }
    let lower = view.effects.prompt.shown().to_lowercase();
    let told: Vec<Quantity> = Quantity::all(&lower).into_iter().map(|(_, q)| q).collect();
    let times: Vec<&Quantity> = told.iter().filter(|q| q.unit == "s").collect();
    // `an hour and a half`, `two hours`: not every time is understood.
    if times.is_empty() || UNIT.find_iter(&lower).count() > times.len() || VAGUE.is_match(&lower) {
        return;
    }
    for range in ranges.iter().filter(|range| range.low.is_some() || range.high.is_some()) {
        let (factor, unit) = range.unit();
        let (low, high) = (range.low.map(|low| low * factor), range.high.map(|high| high * factor));
        if high.is_some_and(|high| high <= 0.0) {
            continue;
        }
        // The rest of the time is a little less than what the agent sets.
        let fits = |time: &&&Quantity| {
            low.is_none_or(|low| low <= time.amount) && high.is_none_or(|high| time.amount * 0.5 <= high)
        };
        // A number of the prompt that has no unit may be any time.
        let is_plain = |q: &Quantity| q.unit.is_empty() && [range.low, range.high].contains(&Some(q.amount));
        // A time that setup gives is to be kept.
        let rest = &crate::lint::analysis::facts::elsewhere(view).rest;
        let is_given = [range.low, range.high].iter().flatten().any(|bound| texts::has_word(rest, &bound.to_string()));
        // Another key has the time of the prompt.
        let is_of_another = ranges.iter().any(|other| {
            let (factor, _) = other.unit();
            other.command == range.command
                && other.high.is_some()
                && times.iter().any(|time| other.accepts(time.amount / factor))
        });
        if is_given || is_of_another || times.iter().any(|time| fits(&time)) || told.iter().any(is_plain) {
            continue;
        }
        let Some(time) = times.first() else { return };
        let expected = time.amount / factor;
        out.push(
            Diagnostic::new(
                &PROMPT_DISAGREES,
                range.span,
                format!("`{}` prints {unit}: `{}` in the prompt is {expected}", range.command, time.text),
            )
            .label(prompt.text.span, "the task of the agent")
            .help("the two must agree: correct the one that is wrong"),
        );
    }
}

static UNIT: Ascii = ascii(r"\b(?:seconds?|secs?|minutes?|mins?|hours?|days?|weeks?|months?|years?)\b");
static VAGUE: Ascii = ascii(
    r"\b(?:half|quarter|couple|few|several|some|two|three|four|five|six|seven|eight|nine|ten|double|twice|longer|shorter|more|less)\b",
);

fn ranges(view: &TaskView<'_>) -> Vec<Range> {
    let mut found = Vec::new();
    if !mentions_ttl(&crate::lint::analysis::facts::elsewhere(view).verify) {
        return found;
    }
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let stdout = step.expect.as_ref().and_then(|(_, expect)| expect.get("stdout"));
            let (Some(run), Some(stdout)) = (texts::script(step).filter(|run| mentions_ttl(run)), stdout) else {
                return;
            };
            let mut commands = ASKS.captures_iter(&run).filter_map(|found| Some(found.get(1)?.as_str().to_uppercase()));
            if let (Some(command), None) = (commands.next(), commands.next()) {
                found.extend(of_expectation(stdout, command));
            }
        });
    });
    let mut seen: Vec<*const crate::effects::shell::Run<'_>> = Vec::new();
    for question in view.asked() {
        let [run] = question.runs.as_slice() else { continue };
        let line = format!("{} ", checked_resource::words(run));
        let Some(found_in) = ASKS.captures(&line) else { continue };
        let Some(command) = found_in.get(1).map(|command| command.as_str().to_uppercase()) else { continue };
        if seen.contains(&std::ptr::from_ref(*run)) {
            continue;
        }
        seen.push(std::ptr::from_ref(*run));
        let same =
            view.asked().iter().filter(|other| matches!(other.runs.as_slice(), [own] if std::ptr::eq(*own, *run)));
        let mut range = Range { command, low: None, high: None, refuses_none: false, span: question.span };
        let known = same.fold(true, |known, question| {
            let (Demand::Compared { operator, with }, Some(wanted)) = (&question.demand, question.is_wanted()) else {
                return false;
            };
            let Ok(number) = with.parse::<f64>() else { return false };
            let operator = match (operator.as_str(), wanted) {
                ("-ge", true) | ("-lt", false) => "ge",
                ("-gt", true) | ("-le", false) => "gt",
                ("-le", true) | ("-gt", false) => "le",
                ("-lt", true) | ("-ge", false) => "lt",
                ("=" | "==" | "-eq", true) | ("!=" | "-ne", false) => "eq",
                _ => "ne",
            };
            if matches!(operator, "le" | "lt" | "eq") {
                range.span = question.span;
            }
            range.bound(operator, number);
            known
        });
        if known {
            found.push(range);
        }
    }
    found
}

impl Range {
    fn bound(&mut self, operator: &str, number: f64) {
        let raise = |known: &mut Option<f64>, to: f64| *known = Some(known.map_or(to, |known| known.max(to)));
        let lower = |known: &mut Option<f64>, to: f64| *known = Some(known.map_or(to, |known| known.min(to)));
        match operator {
            "ge" => raise(&mut self.low, number),
            "gt" => raise(&mut self.low, number + 1.0),
            "le" => lower(&mut self.high, number),
            "lt" => lower(&mut self.high, number - 1.0),
            "eq" => {
                raise(&mut self.low, number);
                lower(&mut self.high, number);
            }
            _ => self.refuses_none |= (number + 1.0).abs() < f64::EPSILON,
        }
    }
}

fn of_expectation(stdout: &Arg<Def>, command: String) -> Option<Range> {
    let mut range = Range { command, low: None, high: None, refuses_none: false, span: stdout.span };
    let ArgKind::Record(fields) = &stdout.kind else {
        let number = number(stdout)?;
        range.bound("eq", number);
        return Some(range);
    };
    for (key, value) in fields {
        let operator = match key.value.as_str() {
            "atLeast" => "ge",
            "above" => "gt",
            "atMost" => "le",
            "below" => "lt",
            "equals" => "eq",
            _ => return None,
        };
        range.bound(operator, number(value)?);
    }
    Some(range)
}

fn number(arg: &Arg<Def>) -> Option<f64> {
    match &arg.kind {
        ArgKind::Text(_) => arg.as_literal()?.trim().parse().ok(),
        _ => arg.as_value()?.as_f64(),
    }
}
