//! What the paths of holes refer to: steps, their outputs, and values inside of outputs that come from other steps.

use crate::{
    hir::{Arg, ArgKind, Hole, Step, Task, Template},
    template::{Path, Segment, SegmentKind},
};

/// What a name identifies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Named {
    Step(String),
    Output { step: String, name: String },
    Variable(String),
    Anchor(String),
}

impl Named {
    /// The name itself.
    pub fn name(&self) -> &str {
        match self {
            Self::Step(name) | Self::Output { name, .. } | Self::Variable(name) | Self::Anchor(name) => name,
        }
    }
}

/// The maximum number of holes that are followed in a row: a task with errors may have cycles.
const HOLES: usize = 20;

/// The steps of a task, each with the loops around it.
pub struct Paths<'t>(Vec<(&'t Step<Path>, Vec<&'t Step<Path>>)>);

/// Where a hole is: the index of its step, if it is in one.
type Place = Option<usize>;

/// What a path has reached so far.
#[derive(Clone, Copy)]
enum Value<'t> {
    Env,
    Steps,
    /// `steps.ID`
    Step(&'t str),
    /// `steps.ID.outputs`, also of a single round.
    Left(&'t str),
    /// The output of a `foreach` that lists none.
    Rounds,
    Round,
    /// A value as written, and its place.
    Written(&'t Arg<Path>, Place),
    Unknown,
}

impl<'t> Paths<'t> {
    pub fn new(task: &'t Task<Path>) -> Self {
        let mut found = Vec::new();
        for phase in [&task.setup, &task.verify, &task.cleanup] {
            phase.steps.iter().for_each(|step| collect(step, &mut Vec::new(), &mut found));
        }
        Self(found)
    }

    /// Visits every template of the steps, with its place.
    pub fn templates(&self, visit: &mut dyn FnMut(&'t Template<Path>, Option<usize>)) {
        for (nth, (step, _)) in self.0.iter().enumerate() {
            step.templates(&mut |template| visit(template, Some(nth)));
        }
    }

    /// The names that a hole uses, and the index of the span of each.
    pub fn names(&self, hole: &'t Hole<Path>, place: Option<usize>) -> Vec<(Named, usize)> {
        let mut value = self.root(hole.reference.root.text.as_str(), place, HOLES);
        let mut found = Vec::new();
        for (nth, segment) in hole.reference.segments.iter().enumerate() {
            let named;
            (named, value) = self.enter(value, segment, HOLES);
            found.extend(named.map(|named| (named, nth + 1)));
        }
        found
    }

    fn root(&self, root: &str, place: Place, holes: usize) -> Value<'t> {
        let own = place.and_then(|place| self.0.get(place));
        let around = own.and_then(|(_, loops)| {
            loops.iter().rev().find(|around| around.var.as_ref().is_some_and(|var| var.value == root))
        });
        match (root, own, around) {
            (_, _, Some(around)) => {
                let place = self.0.iter().position(|(step, _)| std::ptr::eq(*step, *around));
                around.arg("in").map_or(Value::Unknown, |list| self.item(Value::Written(list, place), holes))
            }
            ("env", ..) => Value::Env,
            ("steps", ..) => Value::Steps,
            ("rounds", Some((step, _)), _) if step.op.value == "foreach" => Value::Rounds,
            _ => Value::Unknown,
        }
    }

    /// What a segment leads to, and the name that it uses.
    fn enter(&self, value: Value<'t>, segment: &'t Segment, holes: usize) -> (Option<Named>, Value<'t>) {
        let name = match &segment.kind {
            SegmentKind::Name(name) => name.as_str(),
            SegmentKind::Index(nth) => {
                return match self.settled(value, holes) {
                    Value::Written(Arg { kind: ArgKind::List(items), .. }, place) => {
                        let item = usize::try_from(*nth).ok().and_then(|nth| items.get(nth));
                        (None, item.map_or(Value::Unknown, |item| Value::Written(item, place)))
                    }
                    list => (None, self.item(list, holes)),
                };
            }
        };
        match self.settled(value, holes) {
            Value::Env => (Some(Named::Variable(name.to_owned())), Value::Unknown),
            Value::Steps => (Some(Named::Step(name.to_owned())), Value::Step(name)),
            Value::Step(id) if name == "outputs" => (None, Value::Left(id)),
            Value::Round => (Some(Named::Step(name.to_owned())), Value::Left(name)),
            Value::Left(id) => {
                let named = Named::Output { step: id.to_owned(), name: name.to_owned() };
                (Some(named), self.output(id, name))
            }
            Value::Written(record, place) => {
                (None, record.get(name).map_or(Value::Unknown, |v| Value::Written(v, place)))
            }
            _ => (None, Value::Unknown),
        }
    }

    /// The value of an output. Branches of the same `anyOf` may share an ID.
    fn output(&self, id: &str, name: &str) -> Value<'t> {
        let is = |step: &Step<Path>| step.id.as_ref().is_some_and(|own| own.value == id);
        let mut given = self.0.iter().enumerate().filter(|(_, (step, _))| is(step)).filter_map(|(nth, (step, _))| {
            match &step.outputs {
                Some(outputs) => {
                    let (_, value) = outputs.iter().find(|(output, _)| output.value == name)?;
                    Some(Value::Written(value, Some(nth)))
                }
                None => (step.op.value == "foreach" && name == "rounds").then_some(Value::Rounds),
            }
        });
        given.next().unwrap_or(Value::Unknown)
    }

    fn item(&self, list: Value<'t>, holes: usize) -> Value<'t> {
        match self.settled(list, holes) {
            Value::Rounds => Value::Round,
            Value::Written(Arg { kind: ArgKind::List(items), .. }, place) => {
                items.first().map_or(Value::Unknown, |item| Value::Written(item, place))
            }
            _ => Value::Unknown,
        }
    }

    /// Follows a hole that is the whole value.
    fn settled(&self, value: Value<'t>, holes: usize) -> Value<'t> {
        let Value::Written(Arg { kind: ArgKind::Text(template), .. }, place) = value else { return value };
        let (Some(hole), Some(holes)) = (template.single_hole(), holes.checked_sub(1)) else { return Value::Unknown };
        let root = self.root(hole.reference.root.text.as_str(), place, holes);
        let segments = hole.reference.segments.iter();
        let value = segments.fold(root, |value, segment| self.enter(value, segment, holes).1);
        let value = hole.filters.iter().fold(value, |value, filter| match filter.name.text.as_str() {
            "default" | "sort" | "unique" | "reverse" => value,
            "first" | "last" => self.item(value, holes),
            _ => Value::Unknown,
        });
        self.settled(value, holes)
    }
}

fn collect<'t>(
    step: &'t Step<Path>,
    around: &mut Vec<&'t Step<Path>>,
    found: &mut Vec<(&'t Step<Path>, Vec<&'t Step<Path>>)>,
) {
    found.push((step, around.clone()));
    around.push(step);
    step.blocks.iter().flat_map(|block| &block.steps).for_each(|inner| collect(inner, around, found));
    around.pop();
}
