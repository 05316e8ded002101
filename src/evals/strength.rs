//! How strong a server's evals are: each tool is broken in turn, and at least one eval must fail.
//!
//! A tool is broken by changing its answer: it is called once, and its answer is graded repeatedly, each time with
//! another change. Therefore no tool is called more often than in a plain run – a tool that deletes would give another
//! answer the second time – and without a model the report is the same each time.

use indexmap::IndexSet;
use serde_json::{Value, json};

use super::{
    Server,
    run::{Done, Ended, Running, grade, one, run},
};
use crate::primitive::{Eval, Grading, Level};

/// Maximum number of values in a tool's answers that are broken individually.
pub const VALUES: usize = 16;

/// A way in which a tool is broken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mutant {
    /// It returns an error.
    Error,
    /// It returns an empty answer.
    Empty,
    /// One value of its answer is wrong, everything else is right.
    WrongValue,
    /// It returns the answer of another tool.
    OtherAnswer,
    /// It is not listed.
    Gone,
    /// Its description is empty.
    Undescribed,
}

impl Mutant {
    /// The word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Empty => "empty",
            Self::WrongValue => "wrong-value",
            Self::OtherAnswer => "other-answer",
            Self::Gone => "gone",
            Self::Undescribed => "undescribed",
        }
    }
}

/// How well the evals test one tool.
#[derive(Clone, Debug)]
pub struct ToolStrength {
    pub tool: String,
    /// The evals that use it and pass while it works.
    pub evals: Vec<String>,
    pub mutants: Vec<Tried>,
    /// The number of values in its answers; of more than [`VALUES`], only that many are tried, evenly spread.
    pub values: usize,
}

/// One mutant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tried {
    pub mutant: Mutant,
    /// Which value is wrong: `content[0].text`, `structuredContent.unit`; `content[0].text: unit` in a text that
    /// contains JSON.
    pub at: Option<String>,
    /// The eval that failed; `None`: no eval noticed.
    pub by: Option<String>,
}

impl Tried {
    /// A title for people: `wrong-value at content[0].text`.
    pub fn title(&self) -> String {
        match &self.at {
            Some(at) => format!("{} at {at}", self.mutant.name()),
            None => self.mutant.name().to_owned(),
        }
    }
}

impl ToolStrength {
    /// How many mutants were noticed by an eval.
    pub fn killed(&self) -> usize {
        self.mutants.iter().filter(|tried| tried.by.is_some()).count()
    }
}

/// The mutation score of a server's evals.
#[derive(Debug)]
pub struct Strength {
    /// Evals that do not pass although nothing is broken: they are not counted.
    pub failing: Vec<Done>,
    /// Evals that were not run because the model or judge they need is missing; and scenarios.
    pub unused: Vec<String>,
    /// In the order of `tools/list`.
    pub tools: Vec<ToolStrength>,
}

impl Strength {
    /// The number of noticed mutants, and of all mutants.
    pub fn counts(&self) -> (usize, usize) {
        let killed = self.tools.iter().map(ToolStrength::killed).sum();
        (killed, self.tools.iter().map(|tool| tool.mutants.len()).sum())
    }
}

/// Measures executions, and invocations if there is a model; evals that a judge grades only if there is a judge.
pub async fn strength(running: &Running<'_>, server: &Server, tools: &[Value], evals: &[&Eval]) -> Strength {
    let usable = |eval: &Eval| match (eval.level(), eval.grading.value) {
        (Level::Scenario, _) => false,
        (Level::Invocation, Grading::LlmAsJudge) => running.model.is_some() && running.judge.is_some(),
        (Level::Invocation, Grading::ExactMatch) => running.model.is_some(),
        (Level::Execution, Grading::LlmAsJudge) => running.judge.is_some(),
        (Level::Execution, Grading::ExactMatch) => true,
    };
    let (used, unused): (Vec<&Eval>, Vec<&Eval>) = evals.iter().copied().partition(|eval| usable(eval));
    let once = Running { runs: 1, ..*running };
    let whole = run(&once, server, tools, &used).await;
    let mut passing: Vec<(&Eval, Done)> = used.into_iter().zip(whole).collect();
    let failing = passing.extract_if(.., |(_, done)| done.ended != Ended::Passed).map(|(_, done)| done).collect();
    // Evals graded by a judge come last: they cost more, and the decision may vary.
    passing.sort_by_key(|(eval, _)| eval.grading.value);

    let mut report = Vec::new();
    for tool in tools.iter().filter_map(|tool| tool.get("name")?.as_str()) {
        let own: Vec<&(&Eval, Done)> = passing.iter().filter(|(eval, _)| looks_at(eval, tool)).collect();
        let mut mutants = Vec::new();
        let foreign: Vec<&Value> = passing
            .iter()
            .filter(|(eval, _)| eval.level() == Level::Execution && !looks_at(eval, tool))
            .filter_map(|(_, done)| done.result.as_ref())
            .collect();
        let answers: Vec<(&Eval, &Value)> =
            own.iter().filter_map(|(eval, done)| Some((*eval, done.result.as_ref()?))).collect();
        let values: IndexSet<Place> = answers.iter().flat_map(|(_, result)| places(result)).collect();
        let mut broken = vec![Broken::Whole(Mutant::Error), Broken::Whole(Mutant::Empty)];
        broken.extend(spread(values.len()).map(|nth| Broken::Value(&values[nth])));
        if !foreign.is_empty() {
            broken.push(Broken::Whole(Mutant::OtherAnswer));
        }
        if answers.is_empty() {
            broken.push(Broken::Whole(Mutant::WrongValue));
        }
        for broken in broken {
            let (mut by, mut changes) = (None, false);
            for (eval, result) in &answers {
                let Some(answer) = broken.answer(result, &foreign) else { continue };
                changes = true;
                if grade(&once, eval, &answer).await.0 == Ended::Failed {
                    by = Some(eval.id.value.clone());
                    break;
                }
            }
            // A mutant that changes no answer does not count.
            if changes || answers.is_empty() {
                mutants.push(broken.tried(by));
            }
        }
        let invocations: Vec<&Eval> =
            own.iter().map(|(eval, _)| *eval).filter(|eval| eval.level() == Level::Invocation).collect();
        if !invocations.is_empty() {
            for mutant in [Mutant::Gone, Mutant::Undescribed] {
                let Some(listed) = relisted(mutant, tools, tool) else { continue };
                let mut by = None;
                for eval in &invocations {
                    if one(&once, server, &listed, eval, 0).await.ended == Ended::Failed {
                        by = Some(eval.id.value.clone());
                        break;
                    }
                }
                mutants.push(Tried { mutant, at: None, by });
            }
        }
        let evals = own.iter().map(|(eval, _)| eval.id.value.clone()).collect();
        report.push(ToolStrength { tool: tool.to_owned(), evals, mutants, values: values.len() });
    }
    let unused = unused.into_iter().map(|eval| eval.id.value.clone()).collect();
    Strength { failing, unused, tools: report }
}

/// Whether an eval calls the tool, or expects it to be called.
fn looks_at(eval: &Eval, tool: &str) -> bool {
    eval.tool() == Some(tool)
}

/// How a tool is broken.
enum Broken<'a> {
    Whole(Mutant),
    Value(&'a Place),
}

impl Broken<'_> {
    /// The answer of the broken tool; `None` if it equals the right one.
    fn answer(&self, result: &Value, foreign: &[&Value]) -> Option<Value> {
        let other = match self {
            Self::Whole(Mutant::Error) => {
                json!({"content": [{"type": "text", "text": "the tool is broken"}], "isError": true})
            }
            Self::Whole(Mutant::Empty) => json!({"content": []}),
            Self::Whole(Mutant::OtherAnswer) => (*foreign.iter().find(|other| **other != result)?).clone(),
            Self::Whole(_) => return None,
            Self::Value(place) => place.broken(result)?,
        };
        (&other != result).then_some(other)
    }

    fn tried(&self, by: Option<String>) -> Tried {
        match self {
            Self::Whole(mutant) => Tried { mutant: *mutant, at: None, by },
            Self::Value(place) => Tried { mutant: Mutant::WrongValue, at: Some(place.title()), by },
        }
    }
}

/// A value in the result of a tool.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Place {
    /// Where it is, as a JSON pointer; or where the text is that contains it.
    at: String,
    /// The JSON pointer within that text, which is JSON.
    inside: Option<String>,
}

/// The keys of blocks that contain a tool's answer.
const ANSWERS: [&str; 4] = ["text", "data", "uri", "resource"];

/// All values of a result. A text that repeats `structuredContent` contributes none.
fn places(result: &Value) -> Vec<Place> {
    let mut out = Vec::new();
    let blocks = result.get("content").and_then(Value::as_array);
    for (nth, block) in blocks.into_iter().flatten().enumerate() {
        for key in ANSWERS {
            let Some(value) = block.get(key) else { continue };
            let at = format!("/content/{nth}/{key}");
            match held(value) {
                Some(_) if mirrors(result, value) => {}
                Some(inner) => leaves(&inner, String::new(), &mut |inside| {
                    out.push(Place { at: at.clone(), inside: Some(inside) });
                }),
                None => leaves(value, at, &mut |at| out.push(Place { at, inside: None })),
            }
        }
    }
    if let Some(structured) = result.get("structuredContent") {
        leaves(structured, "/structuredContent".to_owned(), &mut |at| out.push(Place { at, inside: None }));
    }
    out
}

/// The JSON object or list in a text.
fn held(value: &Value) -> Option<Value> {
    serde_json::from_str::<Value>(value.as_str()?).ok().filter(|inner| inner.is_object() || inner.is_array())
}

/// Whether a text repeats `structuredContent`: a broken tool is wrong in both.
fn mirrors(result: &Value, text: &Value) -> bool {
    result.get("structuredContent").is_some_and(|structured| held(text).is_some_and(|inner| &inner == structured))
}

/// The places of the values in a value that contain no other values.
fn leaves(value: &Value, at: String, found: &mut dyn FnMut(String)) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(nth, item)| leaves(item, format!("{at}/{nth}"), found));
        }
        Value::Object(map) if !map.is_empty() => {
            let token = |key: &str| key.replace('~', "~0").replace('/', "~1");
            map.iter().for_each(|(key, item)| leaves(item, format!("{at}/{}", token(key)), found));
        }
        _ => found(at),
    }
}

/// The indexes of the values that are tried.
fn spread(all: usize) -> impl Iterator<Item = usize> {
    let tried = all.min(VALUES);
    (0..tried).map(move |nth| nth * all / tried)
}

impl Place {
    /// The result with another value at this place; `None` if the place does not exist.
    fn broken(&self, result: &Value) -> Option<Value> {
        let mut wrong = result.clone();
        match &self.inside {
            Some(inside) => {
                let text = wrong.pointer_mut(&self.at)?;
                let mut inner = held(text)?;
                other_value(inner.pointer_mut(inside)?);
                *text = inner.to_string().into();
            }
            None => {
                other_value(wrong.pointer_mut(&self.at)?);
                let structured = wrong.get("structuredContent").filter(|_| self.at.starts_with("/structuredContent"));
                if let Some(said) = structured.map(Value::to_string) {
                    for block in wrong.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten() {
                        if let Some(text) = block.get_mut("text").filter(|text| mirrors(result, text)) {
                            *text = said.as_str().into();
                        }
                    }
                }
            }
        }
        Some(wrong)
    }

    /// A title for people: `content[0].text`.
    fn title(&self) -> String {
        let steps = |pointer: &str| {
            let mut text = String::new();
            for token in pointer.split('/').skip(1) {
                let token = token.replace("~1", "/").replace("~0", "~");
                match token.bytes().all(|b| b.is_ascii_digit()) {
                    true => text += &format!("[{token}]"),
                    false if text.is_empty() => text += &token,
                    false => text += &format!(".{token}"),
                }
            }
            text
        };
        match &self.inside {
            Some(inside) => format!("{}: {}", steps(&self.at), steps(inside)),
            None => steps(&self.at),
        }
    }
}

/// Replaces a value that contains no other values with a different one of the same kind.
fn other_value(value: &mut Value) {
    match value {
        Value::Null => *value = Value::Bool(true),
        Value::Bool(b) => *b = !*b,
        Value::Number(number) => {
            let next = number.as_i64().and_then(|n| n.checked_add(1)).map(Value::from);
            *value = next.or_else(|| number.as_f64().map(|n| json!(n / 2.0 + 1.5))).unwrap_or(json!(0));
        }
        Value::String(text) => text.push_str(" (changed)"),
        Value::Array(items) => items.push(Value::Null),
        Value::Object(map) => drop(map.insert("changed".to_owned(), Value::Bool(true))),
    }
}

/// The tools as a model sees them while one is broken; `None` if nothing changes.
fn relisted(mutant: Mutant, tools: &[Value], tool: &str) -> Option<Vec<Value>> {
    let is_it = |item: &Value| item.get("name").and_then(Value::as_str) == Some(tool);
    let mut listed = tools.to_vec();
    match mutant {
        Mutant::Gone => listed.retain(|item| !is_it(item)),
        _ => {
            let item = listed.iter_mut().find(|item| is_it(item))?.as_object_mut()?;
            item.remove("description").filter(|text| text.as_str().is_some_and(|text| !text.is_empty()))?;
        }
    }
    Some(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(result: &Value) -> Vec<String> {
        places(result).iter().map(Place::title).collect()
    }

    #[test]
    fn each_mutant_changes_one_value() {
        let result = json!({"content": [
            {"type": "text", "text": "plain"}, {"type": "text", "text": "{\"a\":[1,{\"b/c\":true}],\"n\":{}}"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"}]});
        let named = [
            "content[0].text",
            "content[1].text: a[0]",
            "content[1].text: a[1].b/c",
            "content[1].text: n",
            "content[2].data",
        ];
        assert_eq!(titles(&result), named);
        let broken = |nth: usize| places(&result)[nth].broken(&result).unwrap();
        let text = |nth: usize, block: usize| broken(nth)["content"][block]["text"].clone();
        assert_eq!((text(0, 0), text(0, 1)), (json!("plain (changed)"), result["content"][1]["text"].clone()));
        assert_eq!(text(1, 1), json!("{\"a\":[2,{\"b/c\":true}],\"n\":{}}"));
        assert_eq!(text(2, 1), json!("{\"a\":[1,{\"b/c\":false}],\"n\":{}}"));
        assert_eq!(broken(4)["content"][2]["data"], json!("AAAA (changed)"));
        // In another answer, which has no such place, nothing is changed.
        assert_eq!(places(&result)[3].broken(&json!({"content": [{"type": "text", "text": "plain"}]})), None);
    }

    #[test]
    fn repeated_values_are_changed_together() {
        let result = json!({"content": [{"type": "text", "text": "{\"t\": 20}"}, {"type": "text", "text": "20 degrees"}],
            "structuredContent": {"t": 20}});
        assert_eq!(titles(&result), ["content[1].text", "structuredContent.t"]);
        let broken = places(&result)[1].broken(&result).unwrap();
        assert_eq!(broken["structuredContent"], json!({"t": 21}));
        assert_eq!(
            (&broken["content"][0]["text"], &broken["content"][1]["text"]),
            (&json!("{\"t\":21}"), &json!("20 degrees"))
        );
    }

    #[test]
    fn large_results_are_sampled_evenly() {
        assert_eq!(spread(0).count(), 0);
        assert_eq!(spread(3).collect::<Vec<_>>(), [0, 1, 2]);
        let some: Vec<usize> = spread(100).collect();
        assert_eq!((some.len(), some[0], some[15]), (VALUES, 0, 93));
    }
}
