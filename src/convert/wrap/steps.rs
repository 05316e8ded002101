//! Converts legacy tasks to tasks of steps: each phase is one script, kept whole.

use super::{Converter, allowed_braces, find, refusal};
use crate::{
    convert::{
        Label, Piece, Refusal, Target, classify,
        emit::{Entry, Item, Value, keep},
        lift,
    },
    hir::{self, Arg, PhaseKind},
    template,
    yaml::Node,
};

impl Converter<'_> {
    /// Converts a legacy task to steps with the same scripts.
    pub fn as_steps(&mut self, root: Node<'_>) -> Result<(Vec<Entry>, usize), Refusal> {
        let mut entries = self.head(root, "mcpchecker/v1alpha2");
        entries.extend(self.metadata(root));
        let mut spec = Vec::new();
        let steps = find(root, "steps").ok_or_else(|| refusal(root.span(), "the task has no `steps`"))?;
        let above = self.comments.before(steps.key.span().start as usize);
        for entry in steps.value.entries() {
            let name = entry.name.to_ascii_lowercase();
            let comments = self.comments.before(entry.key.span().start as usize);
            let mut value = keep(entry.value, self.text, &mut self.comments);
            let mut new = match name.as_str() {
                "prompt" => {
                    let text = entry.value.get("inline").and_then(Node::text).unwrap_or_default();
                    if text.contains("{steps.") {
                        return Err(refusal(
                            entry.value.span(),
                            "`{steps.` makes the prompt a template in the steps dialect, and it cannot be escaped",
                        ));
                    }
                    allowed_braces(&mut value);
                    Entry::new("prompt", value)
                }
                _ => {
                    let phase =
                        [("setup", PhaseKind::Setup), ("verify", PhaseKind::Verify), ("cleanup", PhaseKind::Cleanup)];
                    let Some((_, kind)) = phase.into_iter().find(|(n, _)| *n == name) else { continue };
                    let Some(step) = self.task.phase(kind).steps.first() else { continue };
                    let operation = step.op.value.clone();
                    if operation == "llmJudge" {
                        for (_, arg) in &step.args {
                            if arg.as_literal().is_some_and(|t| t.contains(['{', '}'])) {
                                return Err(refusal(
                                    arg.span,
                                    "the judge of the steps dialect interprets braces, and they cannot be escaped",
                                ));
                            }
                        }
                    }
                    allowed_braces(&mut value);
                    if let Value::Map(fields) = &mut value {
                        fields.retain(|f| step.arg(&f.key.to_ascii_lowercase()).is_some());
                    }
                    self.keep_script(kind, step, None);
                    let item = Item { comments: Vec::new(), value: Value::Map(vec![Entry::new(&operation, value)]) };
                    Entry::new(&name, Value::List(vec![item]))
                }
            };
            new.comments = comments;
            spec.push(new);
        }
        spec.sort_by_key(|e| ["prompt", "setup", "verify", "cleanup"].iter().position(|k| *k == e.key));
        let mut spec = Entry::new("spec", Value::Map(spec));
        spec.comments = above;
        entries.push(spec);
        Ok((entries, 0))
    }

    /// Counts a script that stays a script. `first` is the first piece of a lifted version, which
    /// may give the reason why it stays.
    pub fn keep_script(&mut self, phase: PhaseKind, step: &hir::Step<template::Path>, first: Option<Piece>) {
        let Some(source) = self.script(phase, step) else {
            // A program that is not text.
            if step.op.value == "script" {
                let text = step.arg("file").and_then(Arg::as_literal).unwrap_or_default().to_owned();
                self.tally.add(Label::Residual, 1);
                let (label, why) = (Label::Residual, Some("it is not a script".to_owned()));
                self.pieces.push(Piece { phase, file: None, line: 1, text, label, statements: 1, why });
            }
            return;
        };
        let statements = classify::effective(&source.text);
        self.tally.add(Label::Residual, statements);
        let (line, text, why) = lift::whole(&source.text);
        let why = match self.cx.target {
            Target::Wrap => "without `--target`, scripts are not converted",
            _ if step.arg("env").is_some() => "its step sets `env`",
            _ if step.continue_on_error.is_some() => "its step may fail",
            _ => why,
        };
        let whole = Piece {
            phase,
            file: source.path,
            line,
            text,
            label: Label::Residual,
            statements,
            why: Some(why.to_owned()),
        };
        self.pieces.push(match first.filter(|piece| piece.label == Label::Residual) {
            Some(piece) => Piece { statements, ..piece },
            None => whole,
        });
    }
}
