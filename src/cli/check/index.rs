//! What is known about each task of a project, kept in the user's cache: after an edit, only the tasks that asked for a
//! changed file are compiled.
//!
//! It can be used if only files have changed that individual tasks asked for, and if these tasks still look the same to
//! all rules that examine several tasks. Otherwise, everything is checked again, as without it.

use std::{
    cell::Cell,
    collections::{BTreeMap, hash_map::Entry},
    ffi::{OsStr, OsString},
    fs,
    hash::{Hash as _, Hasher as _},
    path::{Path, PathBuf},
};

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use sha2::{Digest as _, Sha256};

use super::{
    Args,
    kept::{folder, is_ours, part, user, write},
    scope::{self, Looked},
};
use crate::{
    Compiled, Facts, Memory, Options, TaskFacts,
    affected::Changed,
    cli::{ROOT, overlay::Overlay},
    compile_with,
    diagnostic::{self, Applicability, Diagnostic, Edit, Fix, Label, Strength},
    host::{
        disk::Disk,
        trail::{Names, Written, spelt},
    },
    lint,
    project::Only,
    source::{FileId, Files, Sources, Span, Stat},
};

/// The header of a file in this format.
const FORM: &[u8] = b"gevals index 2\n";
/// The maximum size of an index in bytes, and the maximum number of tasks that are compiled individually.
const LARGEST: usize = 48 << 20;
const MANY: usize = 128;
/// The size of a place and a digest, in bytes.
const PLACE: usize = 12;
/// The number of tasks that are encoded at a time.
const PART: usize = 512;
/// The maximum number of files whose digests are held.
const FEW: usize = 1024;
/// The number of words of a [`Grams`].
const WORDS: usize = 32;

/// Why the index cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Miss {
    /// It does not exist, or too much has changed since it was written.
    Stale,
    /// It cannot answer what is asked.
    Other,
}

/// The location of the index of a project.
pub struct Index {
    question: Vec<u8>,
    folder: PathBuf,
    name: String,
    /// Whether a change determines what is checked.
    affected: bool,
}

impl Index {
    /// The index of the project that these arguments ask about; `None` unless they ask about whole directories or about
    /// changes.
    pub fn of(args: &Args, files: &Overlay, options: &Options) -> Option<Self> {
        if args.verbose || args.workspace || args.baseline.is_some() {
            return None;
        }
        let paths = match (args.affected, args.paths.as_slice()) {
            (true, paths) => scope::roots(paths),
            (false, []) => vec![PathBuf::from(".")],
            (false, paths) => paths.to_vec(),
        };
        if !paths.iter().all(|path| files.stat(path) == Some(Stat::Dir)) {
            return None;
        }
        let (program, here) = (std::env::current_exe().ok()?, std::env::current_dir().ok()?);
        let (version, roots) = (env!("CARGO_PKG_VERSION"), (ROOT.get(), files.reach()));
        let question =
            format!("{version} {} {program:?} {here:?} {roots:?} {paths:?} {options:?}", user()).into_bytes();
        let name = format!("{}.index", hex::encode(&Sha256::digest(&question)[..16]));
        Some(Self { question, folder: folder()?, name, affected: args.affected })
    }

    /// Returns what [`scope::look`] would return, but compiles only what has changed, into `memory`.
    ///
    /// # Errors
    /// Everything must be checked.
    pub fn look(&self, args: &Args, files: &Overlay, options: &Options, memory: &Memory) -> Result<Looked, Miss> {
        if !is_ours(&self.folder) {
            return Err(Miss::Stale);
        }
        let bytes = Disk.read(&self.folder.join(&self.name)).map_err(|_| Miss::Stale)?;
        let rest = whole(&bytes, &self.question).ok_or(Miss::Stale)?;
        if rest.is_empty() {
            return Err(if self.affected { Miss::Other } else { Miss::Stale });
        }
        let known = Known::of(rest).ok_or(Miss::Stale)?;
        let changed = known.names.changed(files);
        let missed = Cell::new(None);
        let compile = |paths: &[PathBuf], asked: Option<Changed<'_>>| {
            known.compile((paths, options, files), &changed, asked, memory).unwrap_or_else(|miss| {
                missed.set(Some(miss));
                compile_with(&[], options, memory.sources(), files)
            })
        };
        let looked = scope::look(args, files, &compile, memory.sources());
        match (missed.get(), looked) {
            (Some(miss), _) if self.affected => Err(miss),
            (Some(_), _) | (None, Err(_)) => Err(Miss::Stale),
            (None, Ok(looked)) if self.affected => Ok(looked),
            (None, Ok(looked)) => Ok(Looked { files: known.files as usize, ..looked }),
        }
    }

    /// Stores what is known about a project that was compiled as a whole, with this memory and these names. If the
    /// project cannot be indexed, this fact is stored. `is_clear`: whether a text is free of secrets.
    pub fn keep(
        &self,
        (written, files): (&Written, &dyn Files),
        compiled: &Compiled,
        memory: &Memory,
        is_clear: &dyn Fn(&str) -> bool,
    ) {
        let facts = memory.facts(&compiled.project).filter(|facts| {
            // Many of these texts are identical.
            let said: FxHashSet<&str> = compiled.diagnostics.iter().chain(&facts.broad).flat_map(said).collect();
            is_clear(&said.into_iter().collect::<Vec<_>>().join("\n"))
        });
        // Growing would copy it; pages that are never written use no memory.
        let mut rest = Vec::with_capacity(LARGEST);
        put_part(&mut rest, &self.question);
        let length = rest.len();
        let found = facts.and_then(|facts| encode(written, compiled, facts, memory.sources(), files, &mut rest));
        match found.filter(|_| rest.len() <= LARGEST) {
            Some(found) => put_part(&mut rest, &found),
            None => rest.truncate(length),
        }
        let _ = write(&self.folder, &self.name, &[FORM, &digest(&rest).to_le_bytes(), &rest]);
    }
}

/// A digest that detects damaged bytes.
fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

fn put_part(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend(length(part.len()));
    bytes.extend(part);
}

/// Appends what `write` writes, prefixed with its length, without a copy. Returns `false` if it cannot be written.
fn put(bytes: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
    let start = bytes.len();
    bytes.extend([0; 4]);
    let is_written = write(bytes);
    let part = length(bytes.len() - start - 4);
    bytes[start..start + 4].copy_from_slice(&part);
    is_written
}

/// Saturates: a larger file is not kept.
fn length(part: usize) -> [u8; 4] {
    u32::try_from(part).unwrap_or(u32::MAX).to_le_bytes()
}

fn put_all(bytes: &mut Vec<u8>, places: impl IntoIterator<Item = u32>) {
    let part: Vec<u8> = places.into_iter().flat_map(u32::to_le_bytes).collect();
    put_part(bytes, &part);
}

fn word(bytes: &mut &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.split_off(..4)?.try_into().ok()?))
}

fn long(bytes: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.split_off(..8)?.try_into().ok()?))
}

fn text(bytes: &mut &[u8]) -> Option<String> {
    String::from_utf8(part(bytes)?.to_vec()).ok()
}

fn places(part: &[u8]) -> impl Iterator<Item = u32> {
    part.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

/// A Bloom filter of the groups of three bytes that occur in some texts. A string with any other group does not occur
/// in them.
struct Grams([u64; WORDS]);

impl Grams {
    fn bits(text: &str) -> impl Iterator<Item = usize> {
        let code = |gram: &[u8]| u32::from(gram[0]) | u32::from(gram[1]) << 8 | u32::from(gram[2]) << 16;
        text.as_bytes().windows(3).map(move |gram| code(gram).wrapping_mul(0x9e37_79b1) as usize >> 21)
    }

    fn add(&mut self, text: &str) {
        Self::bits(text).for_each(|bit| self.0[bit / 64] |= 1 << (bit % 64));
    }

    fn may_hold(grams: &[u8], text: &str) -> bool {
        Self::bits(text).all(|bit| grams[bit / 8] & 1 << (bit % 8) != 0)
    }
}

/// Appends everything that is stored after the question except the findings, which it returns. Returns `None` if
/// something in it could not be identified later.
fn encode(
    written: &Written,
    compiled: &Compiled,
    mut facts: Facts,
    sources: &Sources,
    files: &dyn Files,
    bytes: &mut Vec<u8>,
) -> Option<Vec<u8>> {
    let ids = written.places();
    let id = |path: &Path| ids.get(spelt(path).as_os_str()).copied();
    let all = |paths: &mut dyn Iterator<Item = &PathBuf>| paths.map(|path| id(path)).collect::<Option<Vec<u32>>>();
    if !put(bytes, |bytes| written.write(bytes)) {
        return None;
    }
    bytes.extend((compiled.project.files() as u64).to_le_bytes());
    put_all(bytes, all(&mut compiled.project.evals.iter().map(|unit| &unit.path))?);
    put_all(bytes, all(&mut facts.asked.iter())?);
    let record = |task: TaskFacts| {
        let mut grams = Grams([0; WORDS]);
        grams.add(sources.get(task.unit.file).text());
        for path in &*task.refers {
            match sources.read(path) {
                Some(source) => grams.add(source.text()),
                None => grams.add(&String::from_utf8_lossy(&files.read(path).unwrap_or_default())),
            }
        }
        let mut record = Vec::with_capacity(400);
        record.extend(id(&task.unit.path)?.to_le_bytes());
        let dir = task.unit.path.parent().filter(|dir| !dir.as_os_str().is_empty()).and_then(id);
        record.extend(dir.unwrap_or(u32::MAX).to_le_bytes());
        record.extend(task.seen.to_le_bytes());
        record.extend(task.takeable.to_le_bytes());
        record.extend([u8::from(task.is_searched), u8::from(task.searches)]);
        grams.0.iter().for_each(|word| record.extend(word.to_le_bytes()));
        put_all(&mut record, all(&mut task.asked.iter())?);
        let mut found = Vec::with_capacity(task.places.len() * PLACE);
        for (path, digest) in &task.places {
            found.extend(id(path)?.to_le_bytes());
            found.extend(digest.to_le_bytes());
        }
        put_part(&mut record, &found);
        Some(record)
    };
    let is_whole = put(bytes, |bytes| {
        // In parts: all records together would use as much memory again.
        while !facts.tasks.is_empty() {
            let part = facts.tasks.split_off(facts.tasks.len().saturating_sub(PART));
            let Some(records) = part.into_par_iter().map(record).collect::<Option<Vec<_>>>() else { return false };
            records.iter().for_each(|record| bytes.extend(record));
        }
        true
    });
    if !is_whole {
        return None;
    }
    let mut texts: FxHashMap<FileId, (u32, Lines)> = FxHashMap::default();
    let mut place = |span: Span| {
        // Findings of the same file are adjacent.
        if texts.len() > FEW {
            texts.clear();
        }
        let (place, lines) = match texts.entry(span.file) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let source = sources.get(span.file);
                let place = id(source.path()).filter(|_| !source.is_given())?;
                new.insert((place, Lines::of(source.text())))
            }
        };
        Some((*place, lines.up_to(span.end)))
    };
    let mut found = Vec::new();
    for all in [&facts.broad, &compiled.diagnostics] {
        let mut records = Vec::new();
        all.iter().try_for_each(|one| encode_finding(one, &mut records, &mut place))?;
        put_part(&mut found, &records);
    }
    Some(found)
}

/// Where each line of a text ends, and a digest of everything up to there.
struct Lines(Vec<(usize, u64)>);

impl Lines {
    fn of(text: &str) -> Self {
        let (mut end, mut digest) = (0, 0);
        let line = |line: &str| {
            let mut hasher = FxHasher::default();
            (digest, line.trim_end_matches('\n')).hash(&mut hasher);
            (end, digest) = (end + line.len(), hasher.finish());
            (end, digest)
        };
        Self(text.split_inclusive('\n').map(line).collect())
    }

    /// The digest of everything up to the end of the line that contains a byte; after the last line, of everything.
    fn up_to(&self, byte: u32) -> u64 {
        let nth = self.0.partition_point(|(end, _)| *end <= byte as usize);
        self.0.get(nth).or(self.0.last()).map_or(0, |(_, digest)| *digest)
    }
}

/// The texts of a finding.
fn said(one: &Diagnostic) -> impl Iterator<Item = &str> {
    let labels = one.labels.iter().map(|label| &label.message);
    let fixes = one.fix.iter().flat_map(|fix| fix.edits.iter().map(|edit| &edit.text).chain([&fix.description]));
    [&one.message, &one.label].into_iter().chain(&one.help).chain(labels).chain(fixes).map(String::as_str)
}

/// Appends a finding, prefixed with its length. `place` returns the place of a file, and a digest of the file up to the
/// end of the line in which a span ends.
fn encode_finding(
    one: &Diagnostic,
    bytes: &mut Vec<u8>,
    place: &mut dyn FnMut(Span) -> Option<(u32, u64)>,
) -> Option<()> {
    let mut record = Vec::new();
    let mut span = |record: &mut Vec<u8>, span: Span| {
        let (place, digest) = place(span)?;
        [place, span.start, span.end].iter().for_each(|word| record.extend(word.to_le_bytes()));
        record.extend(digest.to_le_bytes());
        Some(())
    };
    span(&mut record, one.span)?;
    let strengths = [Strength::Hard, Strength::Verdict, Strength::Warning, Strength::Note];
    record.push(strengths.iter().position(|strength| *strength == one.strength)? as u8);
    for text in [one.rule.name, &one.message, &one.label, one.help.as_deref().unwrap_or_default()] {
        put_part(&mut record, text.as_bytes());
    }
    record.push(u8::from(one.help.is_some()));
    record.extend((one.labels.len() as u32).to_le_bytes());
    for label in &one.labels {
        span(&mut record, label.span)?;
        put_part(&mut record, label.message.as_bytes());
    }
    record.push(match &one.fix {
        None => 0,
        Some(fix) if fix.applicability == Applicability::Safe => 1,
        Some(_) => 2,
    });
    if let Some(fix) = &one.fix {
        put_part(&mut record, fix.description.as_bytes());
        record.extend((fix.edits.len() as u32).to_le_bytes());
        for edit in &fix.edits {
            span(&mut record, edit.span)?;
            put_part(&mut record, edit.text.as_bytes());
        }
    }
    put_part(bytes, &record);
    Some(())
}

/// Decodes a finding, if everything that it refers to is where it was. `file` returns the file of a place, and the
/// digest of the file up to the end of the line that contains a byte.
fn decode_finding(mut bytes: &[u8], file: &mut dyn FnMut(u32, u32) -> Option<(FileId, u64)>) -> Option<Diagnostic> {
    let bytes = &mut bytes;
    let mut span = |bytes: &mut &[u8]| {
        let (place, start, end, was) = (word(bytes)?, word(bytes)?, word(bytes)?, long(bytes)?);
        let (file, _) = file(place, end).filter(|(_, digest)| *digest == was)?;
        Some(Span::new(file, start as usize..end as usize))
    };
    let place = span(bytes)?;
    let strengths = [Strength::Hard, Strength::Verdict, Strength::Warning, Strength::Note];
    let strength = *strengths.get(usize::from(*bytes.split_off_first()?))?;
    let rule = lint::rule(&text(bytes)?)?;
    let mut one = Diagnostic::new(rule, place, text(bytes)?).strength(strength).here(text(bytes)?);
    let help = text(bytes)?;
    one.help = (*bytes.split_off_first()? != 0).then_some(help);
    for _ in 0..word(bytes)? {
        one.labels.push(Label { span: span(bytes)?, message: text(bytes)? });
    }
    let applicability = match *bytes.split_off_first()? {
        0 => return Some(one),
        1 => Applicability::Safe,
        _ => Applicability::Unsafe,
    };
    let mut fix = Fix { description: text(bytes)?, applicability, edits: Vec::new() };
    for _ in 0..word(bytes)? {
        fix.edits.push(Edit { span: span(bytes)?, text: text(bytes)? });
    }
    one.fix = Some(fix);
    Some(one)
}

/// The content of an index.
struct Known<'b> {
    names: Names<'b>,
    files: u64,
    evals: &'b [u8],
    /// The places that were asked for, but not for a single task.
    asked: &'b [u8],
    tasks: Vec<Task<'b>>,
    /// Findings of rules that examine several tasks, before a policy was applied.
    broad: &'b [u8],
    found: &'b [u8],
}

/// Iterates over encoded findings, with the place of each.
fn findings(mut bytes: &[u8]) -> impl Iterator<Item = Option<(u32, &[u8])>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let Some(record) = part(&mut bytes) else {
            bytes = &[];
            return Some(None);
        };
        Some(word(&mut &*record).map(|place| (place, record)))
    })
}

struct Task<'b> {
    path: u32,
    dir: u32,
    seen: u64,
    takeable: u64,
    is_searched: bool,
    searches: bool,
    grams: &'b [u8],
    asked: &'b [u8],
    places: &'b [u8],
}

impl Task<'_> {
    /// The places with findings, and a digest of these findings.
    fn places(&self) -> impl Iterator<Item = (u32, u64)> {
        self.places.chunks_exact(PLACE).filter_map(|mut bytes| Some((word(&mut bytes)?, long(&mut bytes)?)))
    }
}

/// A set of places.
struct Set(Vec<bool>);

impl Set {
    fn of(names: &Names<'_>, places: impl IntoIterator<Item = u32>) -> Self {
        let mut set = Self(vec![false; names.len()]);
        places.into_iter().for_each(|place| set.add(place));
        set
    }

    fn add(&mut self, place: u32) {
        if let Some(known) = self.0.get_mut(place as usize) {
            *known = true;
        }
    }

    fn has(&self, place: u32) -> bool {
        self.0.get(place as usize).is_some_and(|known| *known)
    }
}

/// The content of a file after the question; `None` if the file is damaged or belongs to another project.
fn whole<'b>(bytes: &'b [u8], question: &[u8]) -> Option<&'b [u8]> {
    let rest = &mut bytes.strip_prefix(FORM)?;
    (long(rest)? == digest(rest) && part(rest)? == question).then_some(*rest)
}

impl<'b> Known<'b> {
    fn of(mut rest: &'b [u8]) -> Option<Self> {
        let rest = &mut rest;
        let names = Names::of(part(rest)?)?;
        let (files, evals, asked) = (long(rest)?, part(rest)?, part(rest)?);
        let (records, mut tasks) = (&mut part(rest)?, Vec::new());
        while !records.is_empty() {
            tasks.push(Task {
                path: word(records)?,
                dir: word(records)?,
                seen: long(records)?,
                takeable: long(records)?,
                is_searched: *records.split_off_first()? != 0,
                searches: *records.split_off_first()? != 0,
                grams: records.split_off(..WORDS * 8)?,
                asked: part(records)?,
                places: part(records)?,
            });
        }
        let found = &mut part(rest)?;
        Some(Self { names, files, evals, asked, tasks, broad: part(found)?, found: part(found)? })
    }

    /// Compiles the tasks that asked for what was `changed`, and those that may refer to what is `asked` about. All
    /// other findings are known.
    fn compile(
        &self,
        (paths, options, files): (&[PathBuf], &Options, &Overlay),
        changed: &[u32],
        asked: Option<Changed<'_>>,
        memory: &Memory,
    ) -> Result<Compiled, Miss> {
        let names = &self.names;
        let broad = Set::of(names, places(self.asked));
        let by_tasks = Set::of(names, self.tasks.iter().flat_map(|task| places(task.asked)));
        if changed.iter().any(|place| names.is_target(*place) || broad.has(*place) || !by_tasks.has(*place)) {
            return Err(Miss::Stale);
        }
        let (mut touched, mut spoken) = (Set::of(names, changed.iter().copied()), Vec::new());
        for path in asked.iter().flat_map(|asked| asked.paths) {
            let file = fs::metadata(path).ok().filter(fs::Metadata::is_file).ok_or(Miss::Other)?;
            let same = names.same(&file, changed);
            if same.iter().any(|place| names.is_target(*place) || broad.has(*place)) {
                return Err(Miss::Other);
            }
            same.into_iter().for_each(|place| touched.add(place));
            spoken.push(Spoken::of(path, names, changed).ok_or(Miss::Other)?);
        }
        let is_meant = |task: &Task<'_>| {
            let speaks = |spoken: &Spoken| spoken.is_in(task, names);
            places(task.asked).any(|place| touched.has(place)) || spoken.iter().any(speaks)
        };
        let (meant, others): (Vec<&Task<'_>>, Vec<&Task<'_>>) = self.tasks.iter().partition(|task| is_meant(task));
        if meant.len() > MANY {
            return Err(if asked.is_some() { Miss::Other } else { Miss::Stale });
        }
        // Files that only these tasks have asked for.
        let outside = Set::of(names, others.iter().flat_map(|task| places(task.asked)));
        let own = meant.iter().flat_map(|task| places(task.asked));
        let own = Set::of(names, own.filter(|place| !outside.has(*place) && !broad.has(*place)));
        let sources = memory.sources();
        let mut texts: FxHashMap<u32, (FileId, Lines)> = FxHashMap::default();
        let mut file = |place: u32, byte: u32| {
            let (id, lines) = match texts.entry(place) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let path = names.path(place)?;
                    let id = sources.add(path, String::from_utf8(files.read(path).ok()?).ok()?);
                    new.insert((id, Lines::of(sources.get(id).text())))
                }
            };
            Some((*id, lines.up_to(byte)))
        };
        let mut broad_found = Vec::new();
        for record in findings(self.broad) {
            let (place, record) = record.ok_or(Miss::Stale)?;
            if own.has(place) {
                broad_found.push(decode_finding(record, &mut file).ok_or(Miss::Other)?);
            }
        }
        let path = |place: u32| names.path(place).map(Path::to_owned).ok_or(Miss::Stale);
        let searched = places(self.evals).chain(meant.iter().filter(|task| task.is_searched).map(|task| task.path));
        let only = Only {
            searched: searched.map(path).collect::<Result<_, _>>()?,
            tasks: meant.iter().map(|task| path(task.path)).collect::<Result<_, _>>()?,
        };
        let mut compiled = memory.compile_part(paths, options, files, &only, &broad_found, asked);
        if compiled.affected.as_ref().is_some_and(|affected| affected.is_whole) {
            return Err(Miss::Other);
        }
        let facts = memory.facts(&compiled.project).ok_or(Miss::Stale)?;
        let compiled_places = compiled.diagnostics.iter().map(|one| sources.path(one.span));
        let named = compiled_places.chain(facts.tasks.iter().flat_map(|task| task.places.keys().cloned()));
        let named: FxHashSet<OsString> = named.map(|path| spelt(&path).as_os_str().to_owned()).collect();
        let named: FxHashMap<&OsStr, u32> = names.these(&named);
        let place = |path: &Path| named.get(spelt(path).as_os_str()).copied();
        // A file that was never asked for before is asked for by these tasks alone.
        let is_own = |path: &Path| place(path).is_none_or(|place| own.has(place));
        // Findings in other files are known, if they are the same as before.
        let elsewhere_before =
            |task: &Task<'_>| task.places().filter(|(place, _)| !own.has(*place)).collect::<BTreeMap<_, _>>();
        let elsewhere = |task: &TaskFacts| {
            let places = task.places.iter().filter(|(path, _)| !is_own(path));
            places.filter_map(|(path, found)| Some((place(path)?, *found))).collect::<BTreeMap<_, _>>()
        };
        let before: FxHashMap<&Path, &Task<'_>> =
            meant.iter().filter_map(|task| Some((names.path(task.path)?, *task))).collect();
        let is_searched_for =
            self.tasks.iter().any(|task| task.searches) || facts.tasks.iter().any(|task| task.searches);
        let is_as_before = |task: &TaskFacts| {
            let before = before.get(spelt(&task.unit.path));
            before.is_some_and(|before| {
                (before.seen, before.is_searched) == (task.seen, task.is_searched)
                    && (before.takeable == task.takeable || !is_searched_for)
                    && elsewhere_before(before) == elsewhere(task)
            })
        };
        if facts.tasks.len() != meant.len() || !facts.tasks.iter().all(is_as_before) {
            return Err(Miss::Stale);
        }
        compiled.diagnostics.retain(|one| is_own(&sources.path(one.span)));
        let concerned = match &compiled.affected {
            Some(affected) => {
                let same = |path| Some(names.same(&fs::metadata(path).ok()?, changed));
                let same = affected.files().map(same).collect::<Option<Vec<_>>>().ok_or(Miss::Other)?;
                Some(Set::of(names, same.into_iter().flatten()))
            }
            None => None,
        };
        let mut wanted: FxHashMap<u32, bool> = FxHashMap::default();
        for record in findings(self.found) {
            let (place, record) = record.ok_or(Miss::Stale)?;
            let is_wanted = *wanted.entry(place).or_insert_with(|| {
                // Links are included, because their targets are not examined.
                !own.has(place) && concerned.as_ref().is_none_or(|set| set.has(place) || names.is_link(place))
            });
            if is_wanted {
                compiled.diagnostics.push(decode_finding(record, &mut file).ok_or(Miss::Other)?);
            }
        }
        diagnostic::sort(&mut compiled.diagnostics, sources);
        Ok(compiled)
    }
}

/// How texts may refer to a file.
struct Spoken {
    name: String,
    /// The name with its directory.
    long: String,
    /// The places of its ancestor directories.
    around: FxHashSet<u32>,
}

impl Spoken {
    fn of(path: &Path, names: &Names<'_>, changed: &[u32]) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().into_owned();
        let folder = path.parent()?.file_name().map(|folder| folder.to_string_lossy().into_owned());
        let mut around = FxHashSet::default();
        for dir in path.ancestors().skip(1) {
            around.extend(names.same(&fs::metadata(dir).ok()?, changed));
        }
        Some(Self { long: format!("{}/{name}", folder.unwrap_or_default()), name, around })
    }

    /// Whether a task, or a file that it refers to, may mention the file.
    fn is_in(&self, task: &Task<'_>, names: &Names<'_>) -> bool {
        let is_below = || self.around.contains(&task.dir) || names.is_link(task.dir);
        Grams::may_hold(task.grams, &self.name) && (is_below() || Grams::may_hold(task.grams, &self.long))
    }
}
