//! What processes of a jail have done. A process that is started again with the same arguments and input, among the same files, does
//! the same as long as its questions get the same answers. So it is not started again: its effects are repeated instead.
//!
//! A process learns nothing of its world except from the commands that it calls. So its behavior is a tree: each question branches by
//! the answer, and each leaf contains the result. If a process did not do the same twice (two of its commands ran side by side, and
//! asked in another order), nothing is predicted.

use std::{collections::HashMap, time::Duration};

use sha2::{Digest, Sha256};

use super::{
    curl::{self, REQUEST},
    files::{self, Change, State},
    kubectl, trace,
    world::{Answer, Call, Given, Time, World},
};
use crate::host::{Captured, Exec, Exit, Finished};

/// Everything that a process is given, except its time limit, which matters only if the process sleeps: [`Past::is_within`].
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// The key of a process that is about to start.
    pub fn of(exec: &Exec, world: &World, state: &State) -> Self {
        let mut all = Sha256::new();
        all.update(files::digest(state));
        all.update([world.hasty, world.endless, world.operations, world.watched].map(u8::from));
        world.slow().for_each(|key| all.update(key));
        all.update(format!("{:?}", Exec { timeout: Duration::ZERO, ..exec.clone() }));
        Self(all.finalize().into())
    }
}

/// The result of a process.
#[derive(Clone)]
pub struct Past {
    pub exit: Exit,
    pub stdout: Captured,
    pub stderr: Captured,
    /// Whether it was killed because something in it never ended, or because it slept for too long.
    pub hung: bool,
    /// For how long it slept, and its limit.
    pub slept: Duration,
    pub limit: Duration,
    /// Its changes to files.
    pub changes: Vec<Change>,
}

/// The time that a process takes, on the clock of the jail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Took {
    /// The time for which it slept.
    Time(Duration),
    /// It does not end before its limit.
    Forever,
}

impl Past {
    /// The time that it took.
    pub fn took(&self) -> Took {
        if self.hung { Took::Forever } else { Took::Time(self.slept) }
    }

    /// Whether the result would be the same with another limit.
    pub fn is_within(&self, limit: Duration) -> bool {
        if self.slept < self.limit { self.slept < limit } else { self.limit == limit }
    }

    /// The result as the host returns it.
    pub fn finished(&self) -> Finished {
        Finished {
            exit: self.exit.clone(),
            stdout: self.stdout.clone(),
            stderr: self.stderr.clone(),
            duration: Duration::ZERO,
            stragglers: 0,
            leftover: None,
        }
    }
}

/// Everything that a world answers to a question: as to a command, and as to a request, with whether the request may wait forever.
type Reply = (Answer, Option<(Option<u16>, String, bool)>);

fn reply(world: &World, call: &Call, time: Time) -> Reply {
    let answer = world.answer(call, time);
    let answer = if world.operations { kubectl::consistent(call, answer) } else { answer };
    let request = (call.argv[0] == REQUEST).then(|| {
        let (status, text) = curl::answered(world, call, time);
        (status, text, world.given.values().any(|given| *given == Given::Hangs))
    });
    (answer, request)
}

/// A point in the run of a process.
enum Node {
    /// What follows is not known.
    Open,
    /// It asks: lines of the trace, of which the last is the question, and the next node by the answer.
    Asks(String, Call, HashMap<Reply, usize>),
    /// It ends: lines of the trace, and the result.
    Ends(String, Box<Past>),
}

/// What is known of processes. `None` for those of which nothing can be known.
#[derive(Default)]
pub struct Memory(HashMap<Key, Option<Vec<Node>>>);

impl Memory {
    /// Predicts what a process will do in a world; `before` is the trace of the phase so far. Returns lines for the trace, and the result.
    /// `None` if they are not known.
    pub fn foretell(&self, key: &Key, world: &World, before: &str) -> Option<(String, Past)> {
        let nodes = self.0.get(key)?.as_ref()?;
        let mut lines = String::new();
        let mut at = 0;
        loop {
            match nodes.get(at)? {
                Node::Open => return None,
                Node::Asks(own, call, ways) => {
                    let time = trace::time(&format!("{before}{lines}"), call);
                    lines += own;
                    at = *ways.get(&reply(world, call, time))?;
                }
                Node::Ends(own, past) => return Some((lines + own, Past::clone(past))),
            }
        }
    }

    /// Records what a process did. `lines` is what it added to the trace.
    pub fn learn(&mut self, key: Key, world: &World, before: &str, lines: &str, past: Past) {
        let known = self.0.entry(key).or_insert_with(|| Some(vec![Node::Open]));
        if let Some(nodes) = known
            && grown(nodes, world, before, lines, past).is_none()
        {
            *known = None;
        }
    }
}

/// Adds a run to those that are known; `None` if it contradicts them.
fn grown(nodes: &mut Vec<Node>, world: &World, before: &str, lines: &str, past: Past) -> Option<()> {
    let mut at = 0;
    let mut from = 0;
    let mut end = 0;
    for line in lines.split_inclusive('\n') {
        end += line.len();
        let Ok(call) = serde_json::from_str::<Call>(line) else { continue };
        let time = trace::time(&format!("{before}{}", &lines[..end - line.len()]), &call);
        let own = &lines[from..end];
        from = end;
        let new = nodes.len();
        let answer = reply(world, &call, time);
        match nodes.get_mut(at)? {
            node @ Node::Open => *node = Node::Asks(own.to_owned(), call, HashMap::from([(answer, new)])),
            Node::Asks(known, _, ways) if known == own => {
                if let Some(next) = ways.get(&answer) {
                    at = *next;
                    continue;
                }
                ways.insert(answer, new);
            }
            _ => return None,
        }
        nodes.push(Node::Open);
        at = new;
    }
    let own = &lines[from..];
    match nodes.get_mut(at)? {
        node @ Node::Open => *node = Node::Ends(own.to_owned(), Box::new(past)),
        Node::Ends(known, was) if known == own && was.exit == past.exit => {}
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::prove::world::{Half, Mood};

    fn world(given: &[(&str, Given)]) -> World {
        World {
            seed: 1,
            mood: Mood::Good,
            given: given.iter().map(|(words, given)| (words.replace(' ', "\u{1f}"), given.clone())).collect(),
            hints: BTreeMap::new(),
            web: BTreeMap::new(),
            denied: BTreeSet::new(),
            words: Vec::new(),
            env: BTreeMap::new(),
            agent: None,
            refuses: None,
            files: Vec::new(),
            programs: BTreeSet::new(),
            links: BTreeMap::new(),
            gone: Vec::new(),
            moves: false,
            once: None,
            loud: false,
            operations: false,
            hasty: false,
            endless: false,
            watched: false,
        }
    }

    fn lines(calls: &[&str]) -> String {
        let line = |words: &&str| match *words {
            "…" => trace::PAUSE.to_owned(),
            words => trace::line(&Call { argv: words.split(' ').map(str::to_owned).collect(), stdin: None }),
        };
        calls.iter().map(line).collect()
    }

    fn past(status: i32) -> Past {
        let (stdout, stderr) = (Captured::default(), Captured::default());
        let (slept, limit) = (Duration::from_secs(9), Duration::from_secs(60));
        Past { exit: Exit::Exited(status), stdout, stderr, hung: false, slept, limit, changes: Vec::new() }
    }

    fn key(world: &World) -> Key {
        Key::of(&Exec::new("sh", "/task").args(["-c", "a && b"]), world, &State::new())
    }

    #[test]
    fn the_same_calls_and_answers_predict_the_same_result() {
        let (good, bad) = (world(&[]), world(&[("a x", Given::Fails)]));
        let (key, mut memory) = (key(&good), Memory::default());
        let told = |memory: &Memory, world: &World, before: &str| {
            memory.foretell(&key, world, before).map(|(lines, past)| (lines, past.exit))
        };
        assert_eq!(told(&memory, &good, ""), None);
        memory.learn(key.clone(), &good, "", &lines(&["a x", "…", "b y", "…"]), past(0));
        let well = Some((lines(&["a x", "…", "b y", "…"]), Exit::Exited(0)));
        assert_eq!(told(&memory, &good, ""), well);
        // An answer that it never asks for makes no difference; one that it asks for does.
        assert_eq!(told(&memory, &world(&[("c z", Given::Fails)]), ""), well);
        assert_eq!(told(&memory, &bad, ""), None);
        assert_eq!(told(&memory, &world(&[("b y", Given::Hangs)]), ""), None);
        memory.learn(key.clone(), &bad, "", &lines(&["a x"]), past(1));
        assert_eq!(told(&memory, &bad, ""), Some((lines(&["a x"]), Exit::Exited(1))));
        assert_eq!(told(&memory, &good, ""), well);
        // A world may answer differently when it is asked again.
        let (mixed, mut memory) = (World { mood: Mood::Mixed, ..world(&[]) }, Memory::default());
        let call = Call { argv: vec!["a".into(), "x".into()], stdin: None };
        let reply = |nth| reply(&mixed, &call, Time { half: Half::Before, nth });
        let other = (1..50).find(|n| reply(*n) != reply(0)).unwrap();
        memory.learn(key.clone(), &mixed, "", &lines(&["a x"]), past(3));
        assert!(told(&memory, &mixed, "").is_some());
        assert_eq!(told(&memory, &mixed, &lines(&vec!["a x"; other])), None);
        // It may also do so after the agent.
        let (later, mut memory) = (world(&[("later a x", Given::Fails)]), Memory::default());
        memory.learn(key.clone(), &later, "#phase setup\n", &lines(&["a x"]), past(4));
        assert_eq!(told(&memory, &later, "#phase setup\n"), Some((lines(&["a x"]), Exit::Exited(4))));
        assert_eq!(told(&memory, &later, "#phase verify\n"), None);
    }

    #[test]
    fn nothing_is_predicted_for_nondeterministic_processes() {
        let world = world(&[]);
        for (again, status) in [(["b y", "a x"], 0), (["a x", "b z"], 0), (["a x", "b y"], 4)] {
            let (key, mut memory) = (key(&world), Memory::default());
            memory.learn(key.clone(), &world, "", &lines(&["a x", "b y"]), past(0));
            memory.learn(key.clone(), &world, "", &lines(&again), past(status));
            assert!(memory.foretell(&key, &world, "").is_none(), "{again:?} {status}");
            // Permanently.
            memory.learn(key.clone(), &world, "", &lines(&["a x", "b y"]), past(0));
            assert!(memory.foretell(&key, &world, "").is_none(), "{again:?} {status}");
        }
    }

    #[test]
    fn different_processes_and_worlds_have_different_keys() {
        let plain = world(&[]);
        let known = key(&plain);
        let exec = || Exec::new("sh", "/task").args(["-c", "a && b"]);
        let others = [
            Key::of(&exec().env("A", "1"), &plain, &State::new()),
            Key::of(&exec().stdin("a"), &plain, &State::new()),
            Key::of(&exec(), &World { hasty: true, ..world(&[]) }, &State::new()),
            Key::of(&exec(), &plain, &State::from([("/tmp/a".into(), files::Entry::Folder(0o755))])),
        ];
        assert!(others.iter().all(|other| *other != known));
        assert!(key(&plain) == known);
        assert!(Key::of(&exec().timeout(Duration::from_secs(3)), &plain, &State::new()) == known);
    }

    #[test]
    fn results_of_sleeping_processes_are_reused_only_within_their_limit() {
        let seconds = Duration::from_secs;
        let done = past(0);
        assert!(done.is_within(seconds(60)) && done.is_within(seconds(10)) && !done.is_within(seconds(9)));
        let killed = Past { slept: seconds(62), ..past(137) };
        assert!(killed.is_within(seconds(60)) && !killed.is_within(seconds(61)) && !killed.is_within(seconds(90)));
    }
}
