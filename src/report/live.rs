//! The live display on a terminal: one line per running task, and how many are done. It is drawn on standard error
//! below the printed report and removed at the end.

use std::time::Duration;

use indexmap::IndexMap;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::event::{Event, EventKind, TaskRun, Verdict};

/// How often the elapsed time of a running task is redrawn.
pub(super) const TICK: Duration = Duration::from_millis(200);

pub(super) struct Live {
    screen: MultiProgress,
    head: ProgressBar,
    running: IndexMap<TaskRun, ProgressBar>,
    runs: usize,
    done: usize,
    bad: usize,
}

impl Live {
    pub(super) fn new(colour: bool) -> Self {
        let screen = MultiProgress::new();
        let head = screen.add(ProgressBar::new_spinner());
        head.set_style(style(if colour { "{msg:.bold}  {elapsed:.dim}" } else { "{msg}  {elapsed}" }));
        head.set_message("starting");
        let mut live = Self { screen, head, running: IndexMap::new(), runs: 0, done: 0, bad: 0 };
        live.tick();
        live
    }

    pub(super) fn take(&mut self, event: &Event) {
        match (&event.task, &event.kind) {
            (_, EventKind::RunStarted { runs, .. }) => self.runs = *runs,
            (Some(task), EventKind::TaskStarted { .. }) => {
                let bar = self.screen.add(ProgressBar::new_spinner());
                bar.set_style(style("  {spinner} {prefix}  {wide_msg} {elapsed}"));
                let run = if task.run > 0 { format!(" (run {})", task.run + 1) } else { String::new() };
                bar.set_prefix(plain(&format!("{}{run}", task.name), 48));
                self.running.insert(task.clone(), bar);
            }
            (Some(task), EventKind::PhaseStarted { phase }) => self.say(task, phase),
            (Some(task), EventKind::ActionStarted { action }) => self.say(task, action),
            (Some(task), EventKind::CallRecorded { call }) => {
                self.say(task, &format!("agent → {}.{}", call.server, call.name));
            }
            (Some(task), EventKind::TaskFinished { verdict, .. }) => {
                self.done += 1;
                self.bad += usize::from(*verdict != Verdict::Passed);
                if let Some(bar) = self.running.shift_remove(task) {
                    bar.finish_and_clear();
                    self.screen.remove(&bar);
                }
            }
            (_, EventKind::Cancelled { .. }) => self.head.set_message("stopping"),
            (_, EventKind::RunFinished { .. }) => return self.clear(),
            _ => return,
        }
        let bad = if self.bad > 0 { format!(", {} did not pass", self.bad) } else { String::new() };
        if self.runs > 0 {
            self.head.set_message(format!("{}/{}{bad}", self.done, self.runs));
        }
    }

    fn say(&self, task: &TaskRun, what: &str) {
        if let Some(bar) = self.running.get(task) {
            bar.set_message(plain(what, 80));
        }
    }

    pub(super) fn tick(&mut self) {
        self.head.tick();
        self.running.values().for_each(ProgressBar::tick);
    }

    /// Prints above the display.
    pub(super) fn print(&mut self, print: impl FnOnce()) {
        // `suspend` would panic if the terminal is gone.
        let _ = self.screen.clear();
        print();
        self.tick();
    }

    pub(super) fn clear(&mut self) {
        for (_, bar) in self.running.drain(..) {
            bar.finish_and_clear();
        }
        self.head.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

/// One line of at most `width` characters, with control characters replaced.
fn plain(text: &str, width: usize) -> String {
    text.chars().take(width).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
