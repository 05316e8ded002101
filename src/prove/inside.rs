//! Runs original and conversion in one world after another, inside the sandbox.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use serde::Deserialize;
use serde_json::json;

use super::{
    Certificate, Job, Order, REAL, Reply,
    condition::{self, Condition},
    files::{Written, place, tree},
    hints::{Hints, asks, has_operations, hints, is_endless, mined, paths},
    host::Stage,
    invert::{spoiled, with_other_values},
    kubectl, places,
    seek::{self, seek},
    shim::TASK,
    side::{Ran, disagreement, ran, side_by_side},
    variables::{overridable, required},
    wishes::{near_misses, wishes},
    world::{Call, Dice, Given, HOSTILE, Half, Mood, Time, Web, World, lines_of, long, patience},
};
use crate::{
    bash::{self, tools::fails_with_one},
    compile,
    convert::looks,
    hir::{Arg, Def, OperationKind, Part, PhaseKind, Target},
    host::disk::Disk,
    plan::{ActionKind, AgentAction, AgentKind, Plan, StepAction},
    source::Sources,
    ty::duration,
};

/// The inner half: reads orders from standard input and replies to each.
pub fn inside() -> u8 {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "{why}");
            return 1;
        }
    };
    let (mut stage, mut plans) = (None, None);
    while let Some(order) = read() {
        let reply = match order {
            Ok(Order::Prove(job)) => Reply::Proof(runtime.block_on(bounded(&job, &mut stage)).map(Box::new)),
            Ok(Order::Help(job)) => {
                let prepared = runtime.block_on(prepared(&job, &mut stage));
                Reply::Ready(prepared.map(|(_, old, new)| plans = Some((old.plan, new))))
            }
            Ok(Order::Run(world)) => {
                let both = stage.as_ref().zip(plans.as_ref()).map(|(stage, (old, new))| async move {
                    let both = (ran(old, &world, stage).await, ran(new, &world, stage).await);
                    // What ends a proof has to end it in the first jail.
                    (both.0.ok().zip(both.1.ok())).filter(|_| stage.watch.take().is_none())
                });
                Reply::Ran(both.and_then(|both| runtime.block_on(both)).map(Box::new))
            }
            // The answer for a proof that has ended meanwhile.
            Ok(Order::Done(_)) => continue,
            Err(why) => Reply::Proof(Err(why)),
        };
        if !say(&reply) {
            return 1;
        }
    }
    0
}

/// The next order; `None` if no more can arrive.
fn read() -> Option<Result<Order, String>> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).ok().filter(|length| *length > 0)?;
    Some(serde_json::from_str(&line).map_err(|why| why.to_string()))
}

/// Whether a reply could be written.
fn say(reply: &Reply) -> bool {
    let mut out = std::io::stdout().lock();
    let line = serde_json::to_string(reply).unwrap_or_default();
    writeln!(out, "{line}").and_then(|()| out.flush()).is_ok()
}

/// How long a proof may take in real time; most take seconds.
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// Does the same as [`compared`], within a time limit.
async fn bounded(job: &Job, stage: &mut Option<Arc<Stage>>) -> Result<Certificate, String> {
    let done = tokio::time::timeout(LONGEST, compared(job, stage)).await;
    let ended = stage.as_ref().and_then(|stage| stage.watch.take());
    let late = || format!("not all worlds finished within {} of real time", duration::format(LONGEST));
    match (done, ended) {
        (Ok(done), None) => done,
        (done, ended) => {
            let stopped = ended.or_else(|| done.is_err().then(late));
            Ok(Certificate { stopped, ..Certificate::default() })
        }
    }
}

/// Prepares a jail for a job: returns what all runs share, the original with what is known of it, and the conversion. `stage` is what
/// all jobs share; the first job creates it.
async fn prepared(job: &Job, stage: &mut Option<Arc<Stage>>) -> Result<(Arc<Stage>, Planned, Plan), String> {
    let stage = match stage {
        Some(stage) => Arc::clone(stage),
        None => {
            let source = tree(Path::new("/source"));
            place(&source)?;
            let mut scripts = planned(&job.task, &job.packages)?.scripts.texts;
            // And helpers that they source.
            let is_script = |path: &Path, text: &str| {
                text.starts_with("#!") || path.extension().is_some_and(|end| end == "sh" || end == "bash")
            };
            let texts = source.iter().map(|(path, bytes, _)| (path, String::from_utf8_lossy(bytes)));
            scripts.extend(texts.filter(|(path, text)| is_script(path, text)).map(|(_, text)| text.into_owned()));
            Arc::clone(stage.insert(Arc::new(Stage::new(&scripts).await)))
        }
    };
    stage.reset()?;
    let converted = beside_original(&job.task);
    place(&[(converted.clone(), job.converted.clone().into_bytes(), 0o644)])?;
    let old = planned(&job.task, &job.packages)?;
    let new = planned(&converted, &BTreeMap::new())?.plan;
    Ok((stage, old, new))
}

/// Where the conversion of a task is in the jail.
fn beside_original(task: &Path) -> PathBuf {
    let stem = task.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    task.with_file_name(format!("{stem}.converted.yaml"))
}

/// Makes a proof.
async fn compared(job: &Job, stage: &mut Option<Arc<Stage>>) -> Result<Certificate, String> {
    let (stage, Planned { plan: old, words, named, scripts }, new) = prepared(job, stage).await?;
    let converted = beside_original(&job.task);
    let operations = has_operations(&new);
    let own = hints(&new, &words, operations);
    let guide = job.guide.as_ref().map(|text| guided(&converted, text)).transpose()?;
    let guiding = guide.as_ref().map(|plan| hints(plan, &words, operations));
    let Hints { answers, web, denied, texts, .. } = guiding.as_ref().unwrap_or(&own).clone();
    let Hints { captured, refused, waited, asked, callers, .. } = own;
    let mut answers = answers;
    for (half, scripts) in [(Half::Before, &scripts.before), (Half::After, &scripts.after)] {
        for (command, texts) in wishes(scripts) {
            answers.add(if operations { normal(&command) } else { command }, half, texts);
        }
    }
    let hints = answers.by_key();
    // What their files should contain.
    let of_files = |path: &str| {
        // A script that has changed to the file's directory uses a shorter path.
        let is_called =
            |name: &str| path.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('/'));
        let own = hints.iter().filter(|(key, _)| key.strip_prefix("cat\u{1f}").is_some_and(is_called));
        own.max_by_key(|(key, _)| key.len()).map(|(_, texts)| texts.clone()).unwrap_or_default()
    };
    let contents: BTreeMap<String, Vec<String>> = named.iter().map(|path| (path.clone(), of_files(path))).collect();
    // An agent that answers everything that the scripts look for.
    let answer = reads_agent(&new).then(|| words.join("\n"));
    let endless = is_endless(&scripts.texts);
    let (defaults, required) = (overridable(&scripts.texts), required(&scripts.texts));
    let world = |seed, mood| {
        let mut dice = Dice::new(seed, "files");
        // An agent that does its work leaves files; another one does not.
        let files = named.iter().filter(|_| dice.below(3) > 0).cloned().collect::<Vec<_>>();
        let text = |path: &String, dice: &mut Dice| match (dice.below(3), contents[path].as_slice()) {
            (1 | 2, [text, ..]) if dice.below(2) == 0 => ended(text),
            (0, _) => String::new(),
            (1, _) => words.join("\n") + "\n",
            _ => words.get(dice.below(words.len().max(1))).cloned().unwrap_or_default() + "\n",
        };
        let files = files.into_iter().map(|f| (f.clone(), text(&f, &mut dice))).collect();
        let (hints, web, denied, words) = (hints.clone(), web.clone(), denied.clone(), words.clone());
        let given = BTreeMap::new();
        World {
            seed,
            mood,
            given,
            hints,
            web,
            denied,
            words,
            env: required.clone(),
            agent: answer.clone(),
            refuses: None,
            files,
            programs: BTreeSet::new(),
            links: BTreeMap::new(),
            gone: Vec::new(),
            moves: false,
            once: None,
            loud: false,
            operations,
            hasty: false,
            endless,
            watched: false,
        }
    };
    // The world that shows most of the original. Other worlds differ from it in one respect each.
    let mut best: Option<(World, Ran)> = None;
    let start = job.start.as_ref().and_then(|start| World::deserialize(start).ok());
    let known = start.is_some();
    let mut both = false;
    let first = start.map(|start| World { operations, ..start });
    for world in first.into_iter().chain((0..8).map(|seed| world(seed, Mood::Good))) {
        let hasty = World { hasty: true, ..world.clone() };
        let ran_old = ran(&old, &hasty, &stage).await?;
        // A world in which both pass shows more than one in which only the original passes.
        both = ran_old.passed && ran(&new, &hasty, &stage).await?.passed;
        if both || best.as_ref().is_none_or(|(_, most)| ran_old.shown() > most.shown()) {
            best = Some((world, ran_old));
        }
        if known || both {
            break;
        }
    }
    if let Some((world, most)) = &mut best
        && !known
    {
        if !most.passed {
            let mut sought = world.clone();
            let mut ran_sought = ran(&old, &World { hasty: true, ..world.clone() }, &stage).await?;
            seek(&mut sought, &mut ran_sought, &old, &stage, seek::FEW).await?;
            if ran_sought.passed {
                (*world, *most) = (sought, ran_sought);
            }
        }
        explore(world, most, &old, &stage, (&contents, &texts)).await?;
        if !both {
            // A plan of steps shows how many of them pass, a script does not. And a world in which both pass shows more.
            let plan = guide.as_ref().filter(|_| !most.passed).unwrap_or(&new);
            let mut other = world.clone();
            let mut ran_new = ran(plan, &World { hasty: true, ..other.clone() }, &stage).await?;
            explore(&mut other, &mut ran_new, plan, &stage, (&contents, &texts)).await?;
            let ran_old = ran(&old, &World { hasty: true, ..other.clone() }, &stage).await?;
            if ran_new.passed && ran_old.passed {
                (*world, *most) = (other, ran_old);
            }
        }
        if !most.passed {
            seek(world, most, &old, &stage, seek::MANY).await?;
        }
    }
    let judged = old.judgements().max(new.judgements());
    let asked_otherwise = questions(&old).into_iter().zip(questions(&new)).find(|(a, b)| differ(a, b));
    let conditions = condition::conditions(&new);
    let mut proof = Proof {
        job,
        old,
        new,
        stage,
        unreached: asked.clone(),
        asked,
        captured,
        refused,
        waited,
        required: required.clone(),
        callers,
        open: conditions.iter().map(|condition| condition.id.clone()).collect(),
        conditions,
        called: Vec::new(),
        seen: BTreeSet::new(),
        alike: BTreeMap::new(),
        ways: BTreeSet::new(),
        passing: Vec::new(),
        lost: 0,
        erratic: false,
        waited_out: 0,
        polls: BTreeMap::new(),
        certificate: Certificate {
            best: best.as_ref().and_then(|(world, _)| serde_json::to_value(world).ok()),
            counter_example: asked_otherwise.map(|(a, b)| format!("the conversion asks the judge {b:?}, not {a:?}\n")),
            ..Certificate::default()
        },
        near: best.into_iter().map(|(world, _)| world).collect(),
    };
    if let Some(best) = proof.near.front().cloned() {
        proof.near.extend((0..judged).map(|n| World { refuses: Some(n), ..best.clone() }));
    }
    if let Some(best) = proof.near.front().cloned() {
        // Each file is missing, or has other contents.
        for (at, (path, text)) in best.files.iter().enumerate() {
            let mut other = best.clone();
            other.files.remove(at);
            proof.near.push_back(other);
            let words = best.words.iter().filter(|word| word.len() > 1 && text.contains(*word)).take(WORDS / 2);
            // Without its last character it is another word.
            let shorter = |word: &String| word.chars().take(word.chars().count() - 1).collect::<String>();
            let others = words.flat_map(|word| [text.replace(word, "other"), text.replace(word, &shorter(word))]);
            let first = text.split_inclusive('\n').next().map(str::to_owned);
            let texts = first.into_iter().chain(others).chain(with_other_values(text)).chain(spoiled(text));
            let texts = texts.chain([String::new()]);
            for text in texts.filter(|_| !path.ends_with('/')).take(3 * WORDS) {
                let mut other = best.clone();
                other.files[at].1 = text;
                proof.near.push_back(other);
            }
        }
        // A file that must be executable exists, but is not.
        for path in &best.programs {
            let mut other = best.clone();
            other.programs.remove(path);
            proof.near.push_back(other);
        }
        if best.moves {
            proof.near.push_back(World { moves: false, ..best.clone() });
        }
        for (half, scripts) in [(Half::Before, &scripts.before), (Half::After, &scripts.after)] {
            for (command, text) in near_misses(scripts) {
                let call = Call::of_key(&if operations { normal(&command) } else { command });
                let mut other = best.clone();
                other.given.insert(best.key(&call, half), Given::Says(lines_of(&call, text)));
                proof.near.push_back(other);
            }
        }
        // Several words of one line are not several lines.
        let counts = |text: &String| ["grep -o", "--only-matching", "wc -w"].iter().any(|word| text.contains(word));
        if scripts.before.iter().chain(&scripts.after).any(counts) {
            let hinted = best
                .hints
                .iter()
                .filter_map(|(key, texts)| Some((best.key(&Call::of_key(key), Half::After), texts.first()?.clone())));
            let given = best.given.iter().filter_map(|(key, given)| match given {
                Given::Says(said) => Some((key.clone(), said.clone())),
                _ => None,
            });
            for (key, said) in hinted.chain(given) {
                let line = said.lines().collect::<Vec<_>>().join(" ");
                let texts = [format!("{line}\n"), format!("{line} {line}\n")];
                for text in texts.into_iter().filter(|text| text.trim() != said.trim()) {
                    let mut other = best.clone();
                    other.given.insert(key.clone(), Given::Says(text));
                    proof.near.push_back(other);
                }
            }
        }
        // Many servers end a text with a line feed.
        for (url, web) in best.web.iter().filter(|(_, web)| web.bodies.iter().any(|body| !body.ends_with('\n'))) {
            let mut other = best.clone();
            let bodies = web.bodies.iter().map(|body| format!("{}\n", body.trim_end_matches('\n'))).collect();
            other.web.insert(url.clone(), Web { bodies, ..web.clone() });
            proof.near.push_back(other);
        }
        // One of several values of an answer is another one.
        for (key, texts) in &best.hints {
            let at = best.key(&Call::of_key(key), Half::After);
            for text in texts.iter().take(1).flat_map(|text| with_other_values(text)) {
                let mut other = best.clone();
                other.given.insert(at.clone(), Given::Says(ended(&text)));
                proof.near.push_back(other);
            }
        }
        // Scripts compare numbers with their words.
        let numbers = best.words.iter().filter_map(|word| word.parse::<u64>().ok()).take(WORDS);
        let around: BTreeSet<u64> = numbers.flat_map(|n| [n.saturating_sub(1), n, n.saturating_add(1)]).collect();
        for (key, texts) in &best.hints {
            let at = best.key(&Call::of_key(key), Half::After);
            for number in texts.iter().filter(|text| text.parse().is_ok_and(|n| around.contains(&n))) {
                let mut other = best.clone();
                other.given.insert(at.clone(), Given::Says(format!("{number}\n")));
                proof.near.push_back(other);
            }
        }
        let counts = |web: &Web| web.bodies.iter().any(|body| body.trim().parse::<u64>().is_ok());
        for (url, web) in best.web.iter().filter(|(_, web)| counts(web)) {
            for number in &around {
                let mut other = best.clone();
                other.web.insert(url.clone(), Web { bodies: vec![format!("{number}\n")], ..web.clone() });
                proof.near.push_back(other);
            }
        }
        // The agent may not have removed what it should remove.
        for at in 0..best.gone.len() {
            let mut other = best.clone();
            other.gone.remove(at);
            proof.near.push_back(other);
        }
        // Or it has left a file that it should not leave.
        for (path, own) in contents.iter().filter(|(path, _)| !best.files.iter().any(|(known, _)| known == *path)) {
            let mut other = best.clone();
            other.gone.retain(|gone| gone.trim_end_matches('/') != path.trim_end_matches('/'));
            other.files.push((path.clone(), ended(own.first().map_or("more", String::as_str))));
            proof.near.push_back(other);
        }
        // Or it has removed what the setup created.
        for path in contents.keys().filter(|path| !best.gone.contains(*path)) {
            let mut other = best.clone();
            other.gone.push(path.trim_end_matches('/').to_owned());
            other.files.retain(|(file, _)| !Path::new(file).starts_with(path));
            proof.near.push_back(other);
        }
        for (name, default) in &defaults {
            // A limit of 0 lets no round of a loop run.
            let zero = default.parse::<u32>().is_ok_and(|number| number > 0).then(|| "0".to_owned());
            for value in [Some(another(default)), zero].into_iter().flatten() {
                let mut other = best.clone();
                other.env.insert(name.clone(), value);
                proof.near.push_back(other);
            }
        }
        for name in best.env.keys() {
            let mut other = best.clone();
            other.env.remove(name);
            proof.near.push_back(other);
            let mut empty = best.clone();
            empty.env.insert(name.clone(), String::new());
            proof.near.push_back(empty);
        }
        // A script may count the files of a directory.
        let beside: BTreeSet<String> = best.files.iter().filter_map(|(path, _)| beside(path)).collect();
        for path in beside {
            let mut other = best.clone();
            other.files.push((path, "more\n".to_owned()));
            proof.near.push_back(other);
        }
        if answer.is_some() {
            let hostile = HOSTILE.iter().map(|text| text.replace("VALUE", best.agent.as_deref().unwrap_or_default()));
            let answers = std::iter::once(String::new()).chain(best.words.iter().take(WORDS).cloned()).chain(hostile);
            proof.near.extend(answers.map(|answer| World { agent: Some(answer), ..best.clone() }));
        }
    }
    for (seed, mood) in [(1, Mood::Bad), (2, Mood::Silent), (3, Mood::Late)] {
        proof.near.push_back(world(seed, mood));
    }
    proof.exhaust().await?;
    // What no world has decided yet may be decided where two things differ.
    let pairs: Vec<World> = if proof.open.is_empty() { Vec::new() } else { proof.pairs().take(PAIRS).collect() };
    let mut pairs = pairs.into_iter();
    let undecided = |proof: &Proof<'_>| !proof.open.is_empty() && !proof.is_refuted();
    proof.through(&mut |_| pairs.next(), &|proof, _| undecided(proof)).await?;
    for is_near in [false, true] {
        let mut repeats = proof.repeats(is_near).take(PAIRS).collect::<Vec<World>>().into_iter();
        // Run the first round even if nothing is undecided: a conversion may have left out one of two equal checks.
        let wanted = |proof: &Proof<'_>, _: &World| if is_near { undecided(proof) } else { !proof.is_refuted() };
        proof.through(&mut |_| repeats.next(), &wanted).await?;
    }
    let mut random = (4..job.seeds.saturating_add(4)).map(|seed| {
        let mut dice = Dice::new(seed, "mood");
        let moods = [Mood::Good, Mood::Mixed, Mood::Mixed, Mood::Mixed, Mood::Odd, Mood::Late];
        World { loud: dice.below(10) == 0, ..world(seed, moods[dice.below(moods.len())]) }
    });
    let wanted = |proof: &Proof<'_>, _: &World| !proof.is_refuted() && proof.waited_out < WAITED_OUT;
    proof.through(&mut |_| random.next(), &wanted).await?;
    // Try the worlds that these have added.
    proof.exhaust().await?;
    Ok(proof.end())
}

/// The plan of the guide, a conversion that keeps no script: it shows what the scripts look for.
fn guided(converted: &Path, guide: &str) -> Result<Plan, String> {
    let task = converted.with_extension("guide.yaml");
    let path = Path::new(TASK).join(&task);
    fs::write(&path, guide).map_err(|e| e.to_string())?;
    let plan = planned(&task, &BTreeMap::new())?.plan;
    fs::remove_file(&path).map_err(|e| e.to_string())?;
    Ok(plan)
}

/// How many words of the scripts an agent answers, each in a world of its own.
const WORDS: usize = 12;

/// Whether a step reads the agent's answer.
fn reads_agent(plan: &Plan) -> bool {
    let mut found = false;
    plan.walk(&mut |_, _, action| {
        let ActionKind::Step(StepAction { args, expect, .. }) = &action.kind else { return };
        for arg in args.iter().map(|(_, arg)| arg).chain(expect) {
            arg.templates(&mut |text| found |= text.holes().any(|hole| hole.reference.target == Target::AgentOutput));
        }
    });
    found
}

/// What a judge is asked, in order: each argument (whether something is contained, is exact or matches a rubric) with the texts between
/// its holes.
fn questions(plan: &Plan) -> Vec<Vec<(String, Vec<String>)>> {
    let mut found = Vec::new();
    plan.walk(&mut |_, _, action| {
        let ActionKind::Step(StepAction { op, args, .. }) = &action.kind else { return };
        if op.signature.judges {
            found.push(args.iter().map(|(name, arg)| (name.value.clone(), texts_of(arg))).collect());
        }
    });
    found
}

/// The texts of an argument, split at its holes.
fn texts_of(arg: &Arg<Def>) -> Vec<String> {
    let mut texts = vec![String::new()];
    arg.templates(&mut |template| {
        for part in &template.parts {
            match (part, texts.last_mut()) {
                (Part::Text(text), Some(last)) => last.push_str(text),
                _ => texts.push(String::new()),
            }
        }
    });
    texts
}

/// Whether two questions are known to differ. Holes are written differently in each dialect, so their contents are not compared.
fn differ(a: &[(String, Vec<String>)], b: &[(String, Vec<String>)]) -> bool {
    let holes = |question: &[(String, Vec<String>)]| question.iter().map(|(_, texts)| texts.len()).collect::<Vec<_>>();
    let whole = |question: &[(String, Vec<String>)]| question.iter().all(|(_, texts)| texts.len() == 1);
    a != b && (whole(a) && whole(b) || holes(a) == holes(b))
}

/// Another file in the directory of a file, with the same ending.
fn beside(path: &str) -> Option<String> {
    let (folder, name) = path.rsplit_once('/').filter(|(_, name)| !name.is_empty())?;
    let end = name.rfind('.').map_or("", |at| &name[at..]);
    Some(format!("{folder}/another{end}"))
}

/// Another value of the same kind as a default.
fn another(default: &str) -> String {
    if let Ok(number) = default.parse::<u32>() {
        return number.saturating_add(1).to_string();
    }
    if let Ok(time) = duration::parse(default) {
        return duration::format(time.saturating_add(std::time::Duration::from_secs(7)));
    }
    match default {
        "" => "1".to_owned(),
        "true" => "false".to_owned(),
        "false" => "true".to_owned(),
        url if url.contains("://") => format!("{url}/other"),
        text => format!("{text}-other"),
    }
}

/// How often both run again if they disagree, before the disagreement counts.
const REPEATS: usize = 3;

/// What is asked more often than this in one phase is a wait.
const REPEATED: usize = 4;

/// How many worlds that differ from the best one in two respects are tried, at most.
const PAIRS: usize = 60;

/// The exit status of a command that passes on the status of another one: `curl` has this one when it times out.
const HANDED_ON: u8 = 28;

/// Of so many calls of a script that differ only in their numbers, each gets other answers; the others only fail.
const ALIKE: usize = 6;

/// How many ways to pass are examined.
const WAYS: usize = 4;

/// If more conditions than this fail at once, none is examined alone, except in a world in which all else is well.
const MANY_FAIL: usize = 3;

/// A script that has asked the same more often than this in a world has waited.
const ROUNDS: usize = 12;
/// In how many worlds a wait for one command may run to its end.
const POLLS: usize = 3;

/// A script that has asked the same more often than this has waited for as long as it can.
const LONG_WAIT: usize = 100;
/// After so many worlds in which a script has waited for as long as it can, no more random ones are tried.
const WAITED_OUT: usize = 8;

/// How many worlds two jails share at a time: with more, more of them are run that nobody wants when it is their turn.
const TOGETHER: usize = 6;

/// Worlds that wait for a jail, with their numbers.
type Left = Arc<Mutex<VecDeque<(usize, World)>>>;
/// What both did in a world, by its number; `None` if the other jail could not run it.
type Done = (usize, World, Option<(Ran, Ran)>);

fn taken(left: &Left, take: fn(&mut VecDeque<(usize, World)>) -> Option<(usize, World)>) -> Option<(usize, World)> {
    take(&mut left.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The other jail, as long as it takes worlds from the end of a list.
struct Aside {
    left: Left,
    thread: Option<JoinHandle<Vec<Done>>>,
}

impl Aside {
    fn new(left: &Left) -> Self {
        let worlds = Arc::clone(left);
        let thread = std::thread::spawn(move || {
            let mut done = Vec::new();
            while let Some((nth, world)) = taken(&worlds, VecDeque::pop_back) {
                let both = match say(&Reply::Aside(Box::new(world.clone()))).then(read).flatten() {
                    Some(Ok(Order::Done(both))) => both.map(|both| *both),
                    _ => None,
                };
                done.push((nth, world, both));
            }
            done
        });
        Self { left: Arc::clone(left), thread: Some(thread) }
    }

    /// Waits for the last world.
    fn end(mut self) -> Vec<Done> {
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

/// A proof that is interrupted takes no more worlds, and reads its last answer: the next order is not for it.
impl Drop for Aside {
    fn drop(&mut self) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).clear();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state of a proof.
struct Proof<'a> {
    job: &'a Job,
    old: Plan,
    new: Plan,
    stage: Arc<Stage>,
    asked: BTreeSet<String>,
    captured: BTreeSet<String>,
    refused: BTreeMap<String, Vec<String>>,
    waited: BTreeSet<String>,
    /// Variables that are set in all worlds except those that test them.
    required: BTreeMap<String, String>,
    callers: Vec<(String, String)>,
    unreached: BTreeSet<String>,
    /// Actions with conditions that have not decided yet.
    open: BTreeSet<String>,
    conditions: Vec<Condition>,
    called: Vec<Call>,
    seen: BTreeSet<String>,
    /// How many calls were seen that differ only in their numbers.
    alike: BTreeMap<String, usize>,
    /// Sets of conditions that failed where the task passed: the ways to pass that were seen.
    ways: BTreeSet<Vec<String>>,
    /// Worlds to try.
    near: VecDeque<World>,
    /// Worlds in which both pass, with what the original called there.
    passing: Vec<(World, Vec<(Call, Half)>)>,
    /// The number of worlds in which only the original passes.
    lost: u64,
    /// Whether the original behaves differently each time.
    erratic: bool,
    /// The number of worlds in which a script waited for as long as it can.
    waited_out: usize,
    /// The number of worlds in which a script asked this again and again in vain.
    polls: BTreeMap<String, usize>,
    certificate: Certificate,
}

impl Proof<'_> {
    /// Whether no more worlds are needed.
    fn is_refuted(&self) -> bool {
        self.erratic || self.certificate.counter_example.is_some()
    }

    /// Compares in all worlds of the queue, and in those that are added meanwhile.
    async fn exhaust(&mut self) -> Result<(), String> {
        // Another answer for which a script waits in vain shows little, and takes long.
        let shows = |proof: &Self, world: &World| {
            !world.given.keys().any(|key| proof.polls.get(key).is_some_and(|polls| *polls >= POLLS))
        };
        self.through(&mut |proof| proof.near.pop_front(), &|proof, world| !proof.is_refuted() && shows(proof, world))
            .await
    }

    /// Compares in one world after another, those that are wanted when it is their turn. Of several worlds, a second jail runs the last
    /// ones meanwhile.
    async fn through(
        &mut self,
        next: &mut dyn FnMut(&mut Self) -> Option<World>,
        wanted: &dyn Fn(&Self, &World) -> bool,
    ) -> Result<(), String> {
        let most = if self.job.helped { TOGETHER } else { 1 };
        loop {
            let mut worlds: VecDeque<(usize, World)> = VecDeque::new();
            while worlds.len() < most
                && let Some(world) = next(self)
            {
                if wanted(self, &world) {
                    worlds.push_back((worlds.len(), world));
                }
            }
            if worlds.is_empty() {
                return Ok(());
            }
            let left = Arc::new(Mutex::new(worlds));
            let aside = (most > 1).then(|| Aside::new(&left));
            let mut done = Vec::new();
            while let Some((nth, world)) = taken(&left, VecDeque::pop_front) {
                let both = self.both(&world).await?;
                done.push((nth, world, Some(both)));
            }
            done.extend(aside.map(Aside::end).unwrap_or_default());
            done.sort_by_key(|(nth, ..)| *nth);
            for (nth, world, both) in done {
                if nth == 0 || wanted(self, &world) {
                    let both = match both {
                        Some(both) => both,
                        None => self.both(&world).await?,
                    };
                    self.compare(world, both).await?;
                }
            }
        }
    }

    /// Runs both in one world.
    async fn both(&self, world: &World) -> Result<(Ran, Ran), String> {
        Ok((ran(&self.old, world, &self.stage).await?, ran(&self.new, world, &self.stage).await?))
    }

    /// Worlds in which both pass, each changed in one more respect.
    fn pairs(&self) -> impl Iterator<Item = World> + use<> {
        let more = |(world, calls): &(World, Vec<(Call, Half)>)| {
            let mut found = Vec::new();
            // Each round of a wait takes time, and the answer that it waits for has been refused already.
            let is_free = |key: &String| !world.given.contains_key(key) && !self.polls.contains_key(key);
            let places = calls.iter().map(|(call, half)| (call, *half, world.key(call, *half)));
            for (call, half, key) in places.filter(|(.., key)| is_free(key)) {
                let mut with = |given| {
                    let mut other = world.clone();
                    other.given.insert(key.clone(), given);
                    found.push(other);
                };
                let said = wanted(world, call, half);
                // One of several texts that are looked for is missing.
                let parts = world.hints(call, half).unwrap_or_default();
                let parts = parts.iter().filter(|part| !part.is_empty() && part.trim() != said.trim());
                let parts = parts.chain(world.words.iter().filter(|word| word.len() > 2 && said.contains(*word)));
                let without = parts.filter(|part| said.contains(*part)).map(|part| said.replace(part, "other"));
                let without: BTreeSet<String> = without.collect();
                spoiled(&said).into_iter().chain(without).for_each(|text| with(Given::Says(lines_of(call, text))));
                if !world.given.is_empty() {
                    with(Given::Fails);
                    with(Given::Silent);
                }
            }
            found
        };
        let plain = |(world, _): &&(World, Vec<(Call, Half)>)| !world.given.values().any(Given::is_odd);
        self.passing.iter().filter(plain).flat_map(more).collect::<Vec<_>>().into_iter()
    }

    /// A passing world in which a call that is made several times in one phase gets another answer one of these times: then each of two
    /// equal checks may decide. The call fails or prints nothing; with `is_near` it prints nearly what is expected.
    fn repeats(&self, is_near: bool) -> impl Iterator<Item = World> + use<> {
        let mut found = Vec::new();
        let Some((world, calls)) = self.passing.first() else { return found.into_iter() };
        let mut times: BTreeMap<(Half, &Call), usize> = BTreeMap::new();
        calls.iter().for_each(|(call, half)| *times.entry((*half, call)).or_default() += 1);
        for ((half, call), times) in times.into_iter().filter(|(_, times)| (2..=REPEATED).contains(times)) {
            let said = wanted(world, call, half);
            let answers = match is_near {
                false => vec![Given::Fails, Given::Silent],
                true if said.is_empty() => Vec::new(),
                true => spoiled(&said).into_iter().map(|text| Given::Says(lines_of(call, text))).collect(),
            };
            for given in answers {
                let once = |nth| Some((half.key(&call.key()), nth, given.clone()));
                found.extend((0..times).map(|nth| World { once: once(nth), ..world.clone() }));
            }
        }
        found.into_iter()
    }

    /// Compares what both did in one world.
    async fn compare(&mut self, world: World, (mut a, mut b): (Ran, Ran)) -> Result<(), String> {
        let certificate = &mut self.certificate;
        certificate.seeds += 1;
        for call in b.phases.values().flatten() {
            self.unreached.retain(|pattern| !asks(pattern, call));
        }
        let mut wrong = self.disagreement(&world, &a, &b).await?;
        if wrong.is_some() && self.is_cramped(&a, &b) {
            let certificate = &mut self.certificate;
            certificate.agreed += 1;
            self.lost += 1;
            for id in b.cramped {
                if !certificate.stronger.iter().any(|(known, _)| *known == id) {
                    certificate
                        .stronger
                        .push((id, format!("{}, and the value is too large for a variable", world.shown())));
                }
            }
            return Ok(());
        }
        if let Some(why) = &wrong {
            let Some(both) = self.afresh(&world, a, b).await? else {
                self.certificate = Certificate {
                    hindered: Some(format!("the original does not behave the same way in every run: {why}")),
                    ..Certificate::default()
                };
                self.near.clear();
                self.erratic = true;
                return Ok(());
            };
            (a, b) = both;
            wrong = self.disagreement(&world, &a, &b).await?;
        }
        let certificate = &mut self.certificate;
        if let Some(why) = wrong {
            certificate.counter_example = Some(side_by_side(&why, &a, &b, &world));
            // Suspects are actions whose command has a fixed answer in this world, or is called by the conversion only.
            let odd = |(_, pattern): &&(String, String)| {
                let mut calls = a.timed().chain(b.timed());
                let is_once = |call: &Call, half: Half| {
                    world.once.as_ref().is_some_and(|(key, ..)| *key == half.key(&call.key()))
                };
                calls.any(|(call, half)| {
                    (world.always(call, half).is_some() || is_once(call, half)) && asks(pattern, call)
                })
            };
            let of = |ran: &Ran| ran.phases.values().flatten().cloned().collect::<BTreeSet<Call>>();
            let (said, own) = (of(&a), of(&b));
            let alone = |(_, pattern): &&(String, String)| own.difference(&said).any(|call| asks(pattern, call));
            let all = self.callers.iter().filter(|caller| odd(caller) || alone(caller));
            certificate.suspects = all.map(|(id, _)| id.clone()).collect();
            if a.passed {
                certificate.suspects.extend(b.failed.into_keys());
            }
            return Ok(());
        }
        certificate.agreed += 1;
        certificate.passed += u64::from(a.passed && b.passed);
        self.lost += u64::from(a.passed && !b.passed);
        certificate.failed += u64::from(!a.passed && !b.passed);
        certificate.hostile += u64::from(world.given.values().any(|given| matches!(given, Given::Says(_))));
        if certificate.seeds == 1 && !a.passed {
            let last =
                a.before_cleanup().next_back().map(|(call, _)| format!("; its last call was `{}`", cut(&call.shown())));
            let why = a.why.lines().next();
            // The steps of the conversion say which of the conditions of a script is not met.
            let mut unmet = b.failed.keys().filter_map(|id| self.new.find(id)).filter(|action| action.is_leaf());
            let unmet = unmet.next().map(|action| action.meaning.as_str()).filter(|meaning| !meaning.contains('\n'));
            let unmet = unmet.map(|meaning| format!("; the first unmet condition: {meaning}"));
            certificate.hindered =
                why.map(|why| format!("{why}{}{}", last.unwrap_or_default(), unmet.unwrap_or_default()));
        }
        for call in a.phases.values().flatten() {
            if !self.called.contains(call) {
                self.called.push(call.clone());
            }
        }
        let mut asked: BTreeMap<String, usize> = BTreeMap::new();
        a.phases.values().flatten().for_each(|call| *asked.entry(call.key()).or_default() += 1);
        self.waited_out += usize::from(asked.values().any(|times| *times > LONG_WAIT));
        for (key, _) in asked.into_iter().filter(|(_, times)| *times > ROUNDS) {
            *self.polls.entry(key).or_default() += 1;
        }
        if !b.passed {
            self.decide(&a, &b, &world).await?;
        }
        self.extend(&a, &b, &world);
        Ok(())
    }

    /// Whether the conversion fails only because a variable of its commands has no room for a value. Then they are stronger, and the report
    /// says so. A script that was kept has no label that could say it.
    fn is_cramped(&self, a: &Ran, b: &Ran) -> bool {
        let mut scripts = BTreeSet::new();
        self.new.walk(&mut |_, _, action| {
            if matches!(&action.kind, ActionKind::Step(step) if step.op.name == "script") {
                scripts.insert(action.id.clone());
            }
        });
        a.passed && !b.passed && !b.cramped.is_empty() && b.cramped.is_disjoint(&scripts)
    }

    /// How the two differ in a way that is not allowed.
    async fn disagreement(&self, world: &World, a: &Ran, b: &Ran) -> Result<Option<String>, String> {
        let wrong = disagreement(a, b, world, self.job.allow, &self.asked);
        // A command that may fail may hang: the conversion goes on after it, while the original was killed with everything that follows.
        let hangs = world.given.values().any(|given| *given == Given::Hangs);
        if wrong.is_none() || !hangs || a.passed {
            return Ok(wrong);
        }
        let mut fails = world.clone();
        fails.given.values_mut().filter(|given| **given == Given::Hangs).for_each(|given| *given = Given::Fails);
        let may = ran(&self.old, &fails, &self.stage).await?;
        Ok(wrong.filter(|_| !may.agent || b.passed && !may.passed))
    }

    /// Runs both again with an empty memory after `a` and `b` have disagreed, and returns the two runs to judge by. A race in the original
    /// is no fault of the conversion: the conversion may do any of the things that the original does, but the same each time. `None` if
    /// the original does different things each time, and the conversion does so too or does none of them.
    async fn afresh(&self, world: &World, a: Ran, b: Ran) -> Result<Option<(Ran, Ran)>, String> {
        let memory = self.stage.forget();
        let (mut old, mut new) = (vec![a], vec![b]);
        for _ in 0..REPEATS {
            self.stage.forget();
            old.push(ran(&self.old, world, &self.stage).await?);
            new.push(ran(&self.new, world, &self.stage).await?);
        }
        let is_one = |runs: &[Ran]| runs.windows(2).all(|pair| is_same(&life(&pair[0]), &life(&pair[1])));
        if is_one(&old) && is_one(&new) {
            // The proof of the next conversion uses what was known before.
            self.stage.remember(memory);
            return Ok(Some((old.swap_remove(0), new.swap_remove(0))));
        }
        self.stage.forget();
        let (is_old_one, is_new_one) = (is_one(&old[1..]), is_one(&new[1..]));
        if !is_new_one {
            return Ok(is_old_one.then(|| (old.swap_remove(0), new.swap_remove(0))));
        }
        let new = new.swap_remove(1);
        for at in 1..old.len() {
            if self.disagreement(world, &old[at], &new).await?.is_none() {
                return Ok(Some((old.swap_remove(at), new)));
            }
        }
        Ok(is_old_one.then(|| (old.swap_remove(1), new)))
    }

    /// Notes which conditions have decided in a world in which the conversion fails: without one of them it would have passed.
    async fn decide(&mut self, a: &Ran, b: &Ran, world: &World) -> Result<(), String> {
        // If much fails, no condition decides alone.
        let failed = self.conditions.iter().filter(|condition| b.failed.get(&condition.id) == Some(&true)).count();
        if world.mood != Mood::Good && failed > MANY_FAIL {
            return Ok(());
        }
        for condition in &self.conditions {
            let known = match a.passed {
                true => self.certificate.stronger.iter().any(|(id, _)| *id == condition.id),
                false => !self.open.contains(&condition.id),
            };
            if known || b.failed.get(&condition.id) != Some(&true) {
                continue;
            }
            let alone = match condition.relaxed(&self.new) {
                // Without its one condition a task does not pass, but nothing in it fails, except in a step that passed.
                Some(relaxed) => {
                    let ran = ran(&relaxed, world, &self.stage).await?;
                    // A check for existence is alone if all else that fails checks more of the same subject.
                    let holds_others = |id: &str| ran.failed.keys().any(|inner| is_around(id, inner));
                    let counts = |id: &String| {
                        *id != condition.id
                            && ran.failed.get(id) == Some(&true)
                            && ran.failed.contains_key(outermost(id))
                            && !condition.is_within(&self.new, id, &holds_others)
                    };
                    ran.passed || !ran.failed.keys().any(counts)
                }
                // Of nested steps the inner one counts; what failed inside a step that passed decides nothing.
                None => {
                    let counts = |id: &String| b.failed.contains_key(outermost(id)) && !is_around(id, &condition.id);
                    b.failed.iter().filter(|(id, was)| **was && counts(id)).count() == 1
                }
            };
            match (alone, a.passed) {
                (true, true) => self.certificate.stronger.push((condition.id.clone(), world.shown())),
                (true, false) => drop(self.open.remove(&condition.id)),
                (false, _) => {}
            }
        }
        Ok(())
    }

    /// Adds worlds for what is called for the first time. Among others: it fails, it prints nothing, it prints everything that the scripts
    /// look for; and if its output is captured, it prints what fools a shell.
    fn extend(&mut self, a: &Ran, b: &Ran, world: &World) {
        let plain = matches!(world.mood, Mood::Good)
            && world.env == self.required
            && !world.loud
            && !world.given.values().any(Given::is_odd);
        let handed_on = world.given.values().any(|given| matches!(given, Given::FailsWith(_) | Given::Slow));
        if !plain || handed_on || world.refuses.is_some() {
            return;
        }
        if a.passed && b.passed && self.passing.is_empty() {
            // Worlds near to a passing one show more than others.
            self.seen.clear();
            self.alike.clear();
        }
        if a.passed && b.passed && self.passing.len() < PAIRS {
            let calls = a.before_cleanup().map(|(call, half)| (call.clone(), half)).collect();
            self.passing.push((world.clone(), calls));
        }
        let calls: Vec<(&Call, Half)> = a.timed().collect();
        // Each of several ways to pass is examined: answers that fool a shell are tried where another way has failed.
        if a.passed && b.passed && !world.given.is_empty() {
            let failed = self.conditions.iter().filter(|condition| b.failed.get(&condition.id) == Some(&true));
            let way: Vec<String> = failed.map(|condition| condition.id.clone()).collect();
            if !way.is_empty() && self.ways.len() < WAYS && self.ways.insert(way) {
                let keys = calls.iter().map(|(call, half)| (*call, *half, world.key(call, *half)));
                for (call, half, key) in keys.filter(|(.., key)| !world.given.contains_key(key)) {
                    if self.captured.iter().any(|pattern| asks(pattern, call)) {
                        let said = wanted(world, call, half);
                        let says = HOSTILE.iter().map(|text| text.replace("VALUE", said.trim_end_matches('\n')));
                        self.near.extend(says.map(|text| {
                            let mut other = world.clone();
                            other.given.insert(key.clone(), Given::Says(lines_of(call, text)));
                            other
                        }));
                    }
                }
            }
        }
        for (call, half) in &calls {
            let (call, half) = (*call, *half);
            // Of several calls with different inputs, one alone may fail.
            let differs = |other: &Call| other.argv == call.argv && other.stdin != call.stdin;
            if call.stdin.is_some() && a.phases.values().flatten().any(differs) && self.seen.insert(call.whole()) {
                let mut other = world.clone();
                other.given.insert(call.whole(), Given::Fails);
                self.near.push_back(other);
            }
            // A call that is repeated after the agent may be answered differently there.
            let is_early =
                half == Half::After && calls.iter().any(|(c, half)| c.argv == call.argv && *half == Half::Before);
            let key = if is_early { half.key(&call.key()) } else { world.key(call, half) };
            if !self.seen.insert(key.clone()) {
                continue;
            }
            let with = |given| {
                let mut other = world.clone();
                other.given.insert(key.clone(), given);
                other
            };
            // A loop that stays in a script makes many calls, and a few of them show what all show.
            let is_lifted = self.callers.iter().any(|(_, pattern)| asks(pattern, call));
            let alike = self.alike.entry(key.replace(|c: char| c.is_ascii_digit(), "")).or_default();
            *alike += usize::from(!is_lifted);
            if *alike > ALIKE && !is_lifted {
                self.near.push_back(with(Given::Fails));
                continue;
            }
            if call.is_lookup() {
                self.near.push_back(with(Given::Fails));
                continue;
            }
            let mut full = world.clone();
            full.hints.insert(key.clone(), vec![world.words.join("\n")]);
            self.near.extend([with(Given::Fails), with(Given::Silent), with(Given::FailsSaying), full]);
            // A command may pass on the exit status of another program.
            let handed_on = call.argv[0] != "http" && !fails_with_one(&call.argv.join(" "));
            self.near.extend(handed_on.then(|| with(Given::FailsWith(HANDED_ON))));
            // An `http` step has no text of an answer that breaks off.
            let is_curl = |(_, pattern): &(String, String)| pattern.starts_with("curl\u{1f}") && asks(pattern, call);
            let breaks_off = call.argv[0] == "http" && self.callers.iter().any(is_curl);
            self.near.extend(breaks_off.then(|| with(Given::BreaksOff)));
            self.near.push_back(with(Given::Missing));
            // An operation knows how long it may wait.
            self.near.extend((!world.operations && patience(call).is_some()).then(|| with(Given::Slow)));
            // A command that runs in the background never ends anyway, even where all is well.
            self.near.extend((!call.is_aside()).then(|| with(Given::Hangs)));
            for (_, texts) in self.refused.iter().filter(|(pattern, _)| asks(pattern, call)) {
                self.near.extend(texts.iter().map(|text| with(Given::Says(lines_of(call, text.clone())))));
                // What a script refuses, it may refuse in other forms as well.
                let forms = HOSTILE.iter().filter(|form| **form != "VALUE" && form.contains("VALUE"));
                // Documents have no other forms.
                let plain = texts.iter().find(|text| !text.starts_with(['{', '[']));
                let others =
                    forms.flat_map(|form| plain.map(|text| form.replace("VALUE", text.trim_end_matches('\n'))));
                self.near.extend(others.map(|text| with(Given::Says(lines_of(call, text)))));
            }
            if self.captured.iter().any(|pattern| asks(pattern, call)) {
                let wanted = wanted(world, call, half);
                let says = |text: &&str| {
                    let text = text.replace("VALUE", wanted.trim_end_matches('\n'));
                    with(Given::Says(lines_of(call, text)))
                };
                let waits = self.waited.iter().any(|pattern| asks(pattern, call));
                // A text that looks like an option is one to kubectl, but a name to an operation.
                let fools = |text: &&&str| !(world.operations && text.starts_with('-'));
                self.near.extend(HOSTILE.iter().take(if waits { 4 } else { HOSTILE.len() }).filter(fools).map(says));
                // The answer may also be long; but an operation gets its values in another way than a program.
                self.near.extend(
                    (!waits && !world.operations).then(|| with(Given::Says(lines_of(call, long(wanted.trim_end()))))),
                );
            }
        }
    }

    fn end(self) -> Certificate {
        if self.erratic {
            return self.certificate;
        }
        let mut certificate = self.certificate;
        // A stronger conversion may fail where the original passes, but not in all such worlds.
        if certificate.passed == 0 && self.lost > 0 && certificate.counter_example.is_none() {
            let (lost, seeds) = (self.lost, certificate.seeds);
            certificate.counter_example =
                Some(format!("the conversion never passes, but the original passes in {lost} of {seeds} worlds\n"));
            certificate.agreed -= lost;
        }
        // All that the original calls was seen: what only the conversion calls is no more than a guess.
        let foreign =
            self.asked.iter().find(|p| !self.unreached.contains(*p) && !self.called.iter().any(|call| asks(p, call)));
        if let Some(command) = foreign
            && certificate.passed > 0
            && certificate.counter_example.is_none()
        {
            let command = command.replace('\u{1f}', " ");
            certificate.counter_example = Some(format!("only the conversion ever calls `{command}`\n"));
            certificate.agreed = 0;
        }
        let unreached: Vec<String> =
            self.callers.iter().filter(|(_, p)| self.unreached.contains(p)).map(|(id, _)| id.clone()).collect();
        // The programs of the jail and those of the shell leave no trace.
        let of_shell = |name: &str| crate::bash::is_own(name) && name != "command";
        let leaves_none = |name: &str| REAL.contains(&name) || of_shell(name) || name == "date";
        let shown = |pattern: &String| !pattern.split('\u{1f}').next().is_some_and(leaves_none);
        certificate.unreached = self.unreached.into_iter().filter(shown).map(|p| p.replace('\u{1f}', " ")).collect();
        let open = self.conditions.into_iter().filter(|condition| self.open.contains(&condition.id));
        let (suspects, undecided) = open.map(|condition| (condition.id, condition.shown)).unzip();
        certificate.undecided = undecided;
        if certificate.counter_example.is_none() {
            certificate.suspects = suspects;
            let own = unreached.into_iter().filter(|_| !certificate.unreached.is_empty());
            certificate.suspects.extend(own);
        }
        certificate
    }
}

/// Calls, the verdict, and the files that are left.
type Life = (Vec<Call>, bool, Written);

/// What is compared between runs of the same task.
fn life(ran: &Ran) -> Life {
    let calls = ran.phases.values().flatten().filter(|call| !call.is_aside()).cloned().collect();
    (calls, ran.passed, ran.left.clone())
}

/// Whether two runs of a task did the same. Calls that only read may come in another order, as in a pipeline.
fn is_same(a: &Life, b: &Life) -> bool {
    let (mut x, mut y) = (a.0.clone(), b.0.clone());
    let moved: Vec<&Call> = a.0.iter().zip(&b.0).filter(|(x, y)| x != y).flat_map(|(x, y)| [x, y]).collect();
    x.sort();
    y.sort();
    (a.1, &a.2) == (b.1, &b.2) && x == y && moved.into_iter().all(|call| looks(&call.argv.join(" ")))
}

/// A command, shortened for people.
fn cut(shown: &str) -> String {
    let cut = shown.char_indices().nth(120).map(|(at, _)| format!("{}…", &shown[..at]));
    cut.unwrap_or_else(|| shown.to_owned())
}

/// What a command should answer in a world when it is asked for the first time.
fn wanted(world: &World, call: &Call, half: Half) -> String {
    world.said(call, Time { half, nth: 0 })
}

/// Whether an action contains another one.
fn is_around(outer: &str, inner: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
}

/// The step of a phase that an action belongs to.
fn outermost(id: &str) -> &str {
    id.match_indices('/').nth(1).map_or(id, |(end, _)| &id[..end])
}

/// How many runs look for the contents of files that a script expects, for all files together.
const FILE_TRIES: usize = 120;

/// How many runs look for the answers that a script expects.
pub const TRIES: usize = 360;

/// An answer to try.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Try {
    Failure,
    Word(String),
    Silence,
}

/// Changes the world so that the original gets further: gives files each text that the scripts know, and commands each word as the
/// answer, starting with those that were asked last. Keeps each change that helps, until the original passes.
pub async fn explore(
    world: &mut World,
    most: &mut Ran,
    old: &Plan,
    stage: &Arc<Stage>,
    (named, texts): (&BTreeMap<String, Vec<String>>, &[String]),
) -> Result<(), String> {
    let words = world.words.clone();
    let hinted = world.clone();
    let looked = |world: &World| World { hasty: true, ..world.clone() };
    // Everything that it may read exists.
    if !most.passed && !named.is_empty() {
        let files =
            named.iter().map(|(path, own)| (path.clone(), own.first().map_or_else(String::new, |t| format!("{t}\n"))));
        let other = World { files: files.collect(), ..world.clone() };
        let ran_other = ran(old, &looked(&other), stage).await?;
        if ran_other.shown() >= most.shown() {
            (*world, *most) = (other, ran_other);
        }
        let moved = World { moves: true, ..world.clone() };
        let ran_moved = ran(old, &looked(&moved), stage).await?;
        if ran_moved.shown() > most.shown() {
            (*world, *most) = (moved, ran_moved);
        }
    }
    for (path, own) in named {
        let (none, folder) = (String::new(), path.ends_with('/'));
        let texts = own.iter().chain(texts).chain(&words).filter(|_| !folder).chain([&none]);
        for text in texts.take(FILE_TRIES / named.len().max(1)) {
            if most.passed {
                return Ok(());
            }
            let mut other = world.clone();
            other.files.retain(|(other, _)| other != path);
            other.files.push((path.clone(), ended(text)));
            let ran = ran(old, &looked(&other), stage).await?;
            if ran.shown() > most.shown() {
                (*world, *most) = (other, ran);
            }
        }
        // The file may have to be empty or missing.
        let mut without = world.clone();
        without.files.retain(|(other, _)| other != path);
        let mut empty = without.clone();
        empty.files.push((path.clone(), String::new()));
        without.gone.push(path.trim_end_matches('/').to_owned());
        for other in [empty, without] {
            if most.passed {
                return Ok(());
            }
            let ran = ran(old, &looked(&other), stage).await?;
            if ran.shown() > most.shown() {
                (*world, *most) = (other, ran);
            }
        }
    }
    if world.agent.is_some() {
        let but = |word: &String| words.iter().filter(|other| *other != word).cloned().collect::<Vec<_>>().join("\n");
        let answers = words.iter().map(&but).chain(words.iter().cloned()).chain([String::new()]);
        for answer in answers.collect::<Vec<_>>() {
            if most.passed {
                return Ok(());
            }
            let other = World { agent: Some(answer), ..world.clone() };
            let ran = ran(old, &looked(&other), stage).await?;
            if ran.shown() > most.shown() {
                (*world, *most) = (other, ran);
            }
        }
    }
    let mut tried = BTreeSet::new();
    while !most.passed && tried.len() < TRIES {
        let early = |(call, half): (&Call, Half)| (half == Half::Before).then(|| call.key());
        let asked: BTreeSet<String> = most.before_cleanup().filter_map(early).collect();
        // A call that is made in both halves may be answered differently in each.
        let place = |(call, half): (&Call, Half)| match half {
            Half::After if asked.contains(&call.key()) => half.key(&call.key()),
            _ => world.key(call, half),
        };
        let keys: Vec<String> = most.before_cleanup().map(place).collect();
        let said =
            most.before_cleanup().map(|(call, half)| (call.key(), wanted(world, call, half).trim_end().to_owned()));
        let said: BTreeSet<(String, String)> = said.filter(|(_, text)| !text.is_empty() && text.len() < 60).collect();
        let answers = |key: &str| {
            let call = Call::of_key(key);
            let half = if *key == Half::After.key(&call.key()) { Half::After } else { Half::Before };
            // What the answer is compared with comes before all other words, and these before what other commands print.
            let wished = hinted.hints(&call, half).unwrap_or_default();
            let printed = said.iter().filter(|(other, _)| *other != call.key()).map(|(_, text)| text.clone());
            // Of several columns, the last one may be the one that is checked.
            let columns = ["\" \"", "\"\\t\""].iter().any(|between| key.contains(between));
            let behind = words.iter().filter(|_| columns).map(|word| format!("x {word}"));
            let all = wished.into_iter().chain(behind).chain(words.iter().cloned()).chain(printed).map(Try::Word);
            [Try::Failure].into_iter().chain(all).chain([Try::Silence]).collect::<Vec<_>>()
        };
        let next = keys.iter().rev().find_map(|key| {
            answers(key).into_iter().map(|answer| (key.clone(), answer)).find(|answer| !tried.contains(answer))
        });
        let Some((key, answer)) = next else { return Ok(()) };
        tried.insert((key.clone(), answer.clone()));
        let mut other = world.clone();
        match answer {
            Try::Failure => drop(other.given.insert(key, Given::Fails)),
            Try::Word(word) => drop(other.hints.insert(key, vec![word])),
            Try::Silence => drop(other.given.insert(key, Given::Silent)),
        }
        let ran = ran(old, &looked(&other), stage).await?;
        if ran.shown() > most.shown() {
            (*world, *most) = (other, ran);
        }
    }
    Ok(())
}

/// A kubectl command as operations call it.
fn normal(command: &str) -> String {
    let argv = command.split('\u{1f}').map(str::to_owned).collect();
    kubectl::normal(Call { argv, stdin: None }).key()
}

/// A task as proofs read it.
pub struct Planned {
    pub plan: Plan,
    /// Words its scripts compare with.
    pub words: Vec<String>,
    /// Files that its scripts name.
    pub named: Vec<String>,
    pub scripts: Scripts,
}

/// Texts of scripts.
#[derive(Default)]
pub struct Scripts {
    /// As the author wrote them.
    pub texts: Vec<String>,
    /// With their loops and calls written out, by when they run: before or after the agent.
    pub before: Vec<String>,
    pub after: Vec<String>,
}

/// An eval that only names the packages of a task's extensions.
fn eval_with(task: &Path, packages: &BTreeMap<String, String>) -> String {
    let extensions: BTreeMap<_, _> =
        packages.iter().map(|(name, package)| (name, json!({ "package": package }))).collect();
    let task = task.file_name().unwrap_or_default().to_string_lossy();
    let config =
        json!({ "agent": { "type": "builtin.noop" }, "extensions": extensions, "taskSets": [{ "path": task }] });
    json!({ "kind": "Eval", "metadata": { "name": "proof" }, "config": config }).to_string()
}

/// Returns the plan of a task with an agent that does nothing, and what its scripts contain. `packages`: the packages of extensions,
/// by their names in the eval.
pub fn planned(task: &Path, packages: &BTreeMap<String, String>) -> Result<Planned, String> {
    let sources = Sources::default();
    let path = Path::new(TASK).join(task);
    let compiled = match packages.is_empty() {
        true => compile(&[path], &sources, &Disk),
        false => {
            let eval = path.with_extension("eval-of-proof.yaml");
            fs::write(&eval, eval_with(&path, packages)).map_err(|e| e.to_string())?;
            let compiled = compile(std::slice::from_ref(&eval), &sources, &Disk);
            fs::remove_file(&eval).map_err(|e| e.to_string())?;
            compiled
        }
    };
    let of_eval = compiled.evals.into_iter().flatten().flat_map(|eval| eval.tasks).next();
    let plan = of_eval.map(Box::new).or_else(|| compiled.tasks.into_iter().next().flatten());
    let mut plan = plan.ok_or_else(|| {
        let first = compiled.diagnostics.first().map_or("", |d| d.message.as_str());
        format!("`{}` has no plan: {first}", task.display())
    })?;
    let agent = plan.agent;
    if let ActionKind::Agent(AgentAction { kind, .. }) = &mut plan.action_mut(agent).kind {
        *kind = AgentKind::Noop;
    }
    // Older dialects leave it to the eval which package a name means.
    let mut places = Vec::new();
    plan.walk(&mut |_, ix, _| places.push(ix));
    for ix in places {
        if let ActionKind::Step(StepAction { op, .. }) = &mut plan.action_mut(ix).kind
            && let OperationKind::Extension { package, .. } = &mut op.kind
            && let Some(known) = packages.get(package)
        {
            package.clone_from(known);
        }
    }
    let mut words = BTreeSet::new();
    let (mut named, mut looked) = (BTreeSet::new(), BTreeSet::new());
    let mut scripts = Scripts::default();
    for source in sources.all() {
        mined(source.text(), &mut words);
        paths(source.text(), &mut named);
    }
    for unit in &compiled.project.tasks {
        let Some(task) = &unit.task else { continue };
        task.walk(&mut |phase, step| {
            let file = step.arg("file").and_then(Arg::as_literal).map(|file| task.dir.join(file));
            let inline = step.arg("inline").and_then(Arg::as_literal).map(str::to_owned);
            let of_file = file.as_ref().map(|file| fs::read_to_string(file).unwrap_or_default());
            for text in of_file.into_iter().chain(inline) {
                let beside = file.as_ref().and_then(|file| file.parent()).unwrap_or(&task.dir);
                let sourced = |path: &str| {
                    [beside, task.dir.as_path()].iter().find_map(|dir| fs::read_to_string(dir.join(path)).ok())
                };
                let all = bash::unroll::unrolled(&text, &sourced).unwrap_or_else(|| text.clone());
                mined(&all, &mut words);
                paths(&all, &mut named);
                if phase == PhaseKind::Verify {
                    looked.extend(places::places(&all));
                }
                scripts.texts.push(text);
                if phase == PhaseKind::Setup { &mut scripts.before } else { &mut scripts.after }.push(all);
            }
        });
    }
    // The agent may change a file that verify reads and setup writes, but not the files of the task otherwise.
    let is_written = |name: &str| scripts.before.iter().any(|text| text.contains(name));
    named.retain(|name| !name.starts_with(bash::unroll::TEMPORARY));
    named.retain(|name| !Path::new(TASK).join(name).exists() || looked.contains(name) && is_written(name));
    let words = words.into_iter().take(90).collect();
    Ok(Planned { plan: *plan, words, named: named.into_iter().take(12).collect(), scripts })
}

/// The text of a file, whose last line has an end.
fn ended(text: &str) -> String {
    if text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}
