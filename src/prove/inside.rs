//! Original and conversion in world after world, inside the sandbox.

use std::{
    collections::{BTreeSet, VecDeque},
    fs,
    io::Write,
    path::Path,
    sync::Arc,
};

use super::{
    Certificate, Job, REAL,
    files::{Files, restore, tree},
    hints::{Hints, asks, has_operations, hints, mined, paths},
    shim::TASK,
    side::{Ran, disagreement, ran, side_by_side},
    world::{Call, Dice, Mood, World},
};
use crate::{
    compile,
    hir::Arg,
    host::{RealHost, disk::Disk},
    plan::{ActionKind, AgentAction, AgentKind, Plan},
    source::Sources,
};

/// The inner half: reads the job from standard input, and writes the certificate.
pub fn inside() -> u8 {
    let answer = (|| -> Result<Certificate, String> {
        let job: Job = serde_json::from_reader(std::io::stdin().lock()).map_err(|e| e.to_string())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
        runtime.block_on(compared(&job))
    })();
    match answer {
        Ok(certificate) => {
            let _ = std::io::stdout().write_all(serde_json::to_string(&certificate).unwrap_or_default().as_bytes());
            0
        }
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "{why}");
            1
        }
    }
}

pub async fn compared(job: &Job) -> Result<Certificate, String> {
    let source = tree(Path::new("/source"));
    let stem = job.task.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let converted = job.task.with_file_name(format!("{stem}.converted.yaml"));
    let mut files = source;
    files.push((converted.clone(), job.converted.clone().into_bytes(), 0o644));
    restore(&files)?;
    let (old, words, named) = planned(&job.task)?;
    let (new, ..) = planned(&converted)?;
    let operations = has_operations(&new);
    let Hints { answers: hints, web, denied, asked, texts } = hints(&new, &words, operations);
    let real = Arc::new(RealHost::new());
    let world = |seed, mood| {
        let mut dice = Dice::new(seed, "files");
        // An agent that does its work leaves files, and another does not.
        let files = named.iter().filter(|_| dice.below(3) > 0).cloned().collect::<Vec<_>>();
        let text = |dice: &mut Dice| match dice.below(3) {
            0 => String::new(),
            1 => words.join("\n") + "\n",
            _ => words.get(dice.below(words.len().max(1))).cloned().unwrap_or_default() + "\n",
        };
        let files = files.into_iter().map(|f| (f, text(&mut dice))).collect();
        let (hints, web, denied, words) = (hints.clone(), web.clone(), denied.clone(), words.clone());
        let (failing, mute) = (BTreeSet::new(), BTreeSet::new());
        World { seed, mood, failing, mute, hints, web, denied, words, files, loud: false, operations }
    };
    // The world that shows most of the original: the others differ from it in one thing after the other.
    let mut best: Option<(World, Ran)> = None;
    for seed in 0..8 {
        let world = world(seed, Mood::Good);
        let ran = ran(&old, &world, &real, &files).await?;
        if best.as_ref().is_none_or(|(_, most)| ran.shown() > most.shown()) {
            best = Some((world, ran));
        }
        if best.as_ref().is_some_and(|(_, ran)| ran.passed) {
            break;
        }
    }
    if let Some((world, most)) = &mut best {
        explore(world, most, &old, &real, &files, (&named, &texts)).await?;
    }
    let mut near: VecDeque<World> = best.into_iter().map(|(world, _)| world).collect();
    let mut seen = BTreeSet::new();
    let mut certificate =
        Certificate { seeds: 0, agreed: 0, counter_example: None, passed: 0, hindered: None, unreached: Vec::new() };
    let mut unreached = asked.clone();
    let mut called: Vec<Call> = Vec::new();
    let mut both_passed = false;
    for seed in 0..job.seeds {
        let one_more = if seed > 3 && (seed % 4 > 0) || seed == 0 { near.pop_front() } else { None };
        let world = match (seed, one_more) {
            (_, Some(world)) => world,
            (1, _) => world(1, Mood::Bad),
            (2, _) => world(2, Mood::Silent),
            (3, _) => world(3, Mood::Late),
            _ => {
                let mut dice = Dice::new(seed, "mood");
                let moods = [Mood::Good, Mood::Mixed, Mood::Mixed, Mood::Mixed, Mood::Odd, Mood::Late];
                World { loud: dice.below(10) == 0, ..world(seed, moods[dice.below(moods.len())]) }
            }
        };
        let (a, b) = (ran(&old, &world, &real, &files).await?, ran(&new, &world, &real, &files).await?);
        certificate.seeds += 1;
        for call in b.phases.values().flatten() {
            unreached.retain(|pattern| !asks(pattern, call));
        }
        match disagreement(&a, &b, &world, job.allow, &asked) {
            None => certificate.agreed += 1,
            Some(why) => {
                certificate.counter_example = Some(side_by_side(&why, &a, &b, &world));
                break;
            }
        }
        certificate.passed += u64::from(a.passed);
        both_passed |= a.passed && b.passed;
        if seed == 0 && !a.passed {
            certificate.hindered = a.why.lines().next().map(str::to_owned);
        }
        for call in a.phases.values().flatten() {
            if !called.contains(call) {
                called.push(call.clone());
            }
        }
        // What is called for the first time fails in one more world, says nothing in another, and in a third one all that
        // the scripts look for.
        if matches!(world.mood, Mood::Good) && !world.loud {
            for key in a.phases.values().flatten().map(Call::key) {
                if seen.insert(key.clone()) {
                    let (mut failing, mut mute, mut full) = (world.clone(), world.clone(), world.clone());
                    failing.failing.insert(key.clone());
                    mute.mute.insert(key.clone());
                    full.hints.insert(key, vec![words.join("\n")]);
                    near.extend([failing, mute, full]);
                }
            }
        }
    }
    // A stronger conversion may fail where the original passes, but not wherever it does.
    if certificate.passed > 0 && !both_passed && certificate.counter_example.is_none() {
        certificate.counter_example = Some(format!(
            "the conversion never passes, and the original does in {} of {} worlds\n",
            certificate.passed, certificate.seeds
        ));
        certificate.agreed -= certificate.passed;
    }
    // All that the original does was seen: what only the conversion does is no more than a guess at it.
    let foreign = asked.iter().find(|p| !unreached.contains(*p) && !called.iter().any(|call| asks(p, call)));
    if let Some(command) = foreign
        && certificate.passed > 0
        && near.is_empty()
        && certificate.counter_example.is_none()
    {
        let command = command.replace('\u{1f}', " ");
        certificate.counter_example = Some(format!("only the conversion ever calls `{command}`\n"));
        certificate.agreed = 0;
    }
    // What is the jail's own leaves no trace.
    let shown = |pattern: &String| !pattern.split('\u{1f}').next().is_some_and(|name| REAL.contains(&name));
    certificate.unreached = unreached.into_iter().filter(shown).map(|p| p.replace('\u{1f}', " ")).collect();
    Ok(certificate)
}

/// Runs that look for the answers which a script waits for.
pub const TRIES: usize = 360;

/// What a command may answer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Try {
    Failure,
    Word(String),
    Silence,
}

/// Gives files each text that the scripts know, and commands, those that were asked last before others, each word as the answer, as
/// long as that brings the original further.
pub async fn explore(
    world: &mut World,
    most: &mut Ran,
    old: &Plan,
    real: &Arc<RealHost>,
    files: &Files,
    (named, texts): (&[String], &[String]),
) -> Result<(), String> {
    let words = world.words.clone();
    for path in named {
        for text in texts.iter().chain(&words) {
            if most.passed {
                return Ok(());
            }
            let mut other = world.clone();
            other.files.retain(|(other, _)| other != path);
            other.files.push((path.clone(), format!("{text}\n")));
            let ran = ran(old, &other, real, files).await?;
            if ran.shown() > most.shown() {
                (*world, *most) = (other, ran);
            }
        }
    }
    let mut tried = BTreeSet::new();
    while !most.passed && tried.len() < TRIES {
        let keys: Vec<String> = most.before_cleanup().map(Call::key).collect();
        let answers = || [Try::Failure].into_iter().chain(words.iter().cloned().map(Try::Word)).chain([Try::Silence]);
        let next = keys
            .iter()
            .rev()
            .find_map(|key| answers().map(|answer| (key.clone(), answer)).find(|answer| !tried.contains(answer)));
        let Some((key, answer)) = next else { return Ok(()) };
        tried.insert((key.clone(), answer.clone()));
        let mut other = world.clone();
        match answer {
            Try::Failure => drop(other.failing.insert(key)),
            Try::Word(word) => drop(other.hints.insert(key, vec![word])),
            Try::Silence => drop(other.mute.insert(key)),
        }
        let ran = ran(old, &other, real, files).await?;
        if ran.shown() > most.shown() {
            (*world, *most) = (other, ran);
        }
    }
    Ok(())
}

/// The plan of a task with an agent that does nothing, and the words its scripts compare with.
pub fn planned(task: &Path) -> Result<(Plan, Vec<String>, Vec<String>), String> {
    let sources = Sources::default();
    let path = Path::new(TASK).join(task);
    let compiled = compile(&[path], &sources, &Disk);
    let plan = compiled.tasks.into_iter().next().flatten();
    let mut plan = plan.ok_or_else(|| {
        let first = compiled.diagnostics.first().map_or("", |d| d.message.as_str());
        format!("`{}` has no plan: {first}", task.display())
    })?;
    let agent = plan.agent;
    if let ActionKind::Agent(AgentAction { kind, .. }) = &mut plan.action_mut(agent).kind {
        *kind = AgentKind::Noop;
    }
    let mut words = BTreeSet::new();
    let mut named = BTreeSet::new();
    for source in sources.all() {
        mined(source.text(), &mut words);
        paths(source.text(), &mut named);
    }
    for unit in &compiled.project.tasks {
        let Some(task) = &unit.task else { continue };
        task.walk(&mut |_, step| {
            if let Some(file) = step.arg("file").and_then(Arg::as_literal) {
                let text = fs::read_to_string(task.dir.join(file)).unwrap_or_default();
                mined(&text, &mut words);
                paths(&text, &mut named);
            }
        });
    }
    // What is there already is nothing an agent makes.
    named.retain(|n| !Path::new(TASK).join(n).exists());
    Ok((*plan, words.into_iter().take(90).collect(), named.into_iter().take(12).collect()))
}
