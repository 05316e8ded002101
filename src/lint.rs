//! Texts that are well-formed, but probably do not mean what their author expects. Each directory has one subject, and
//! related faults share a file.
//!
//! A rule has an ID, a page and a function. To add one, write the function in the directory of its subject, a `mod` line
//! and a line in [`RULES`] here, and a page in `lints/`. Rules that report while a file is read or checked have their code
//! there, but are listed here too.

/// What several rules need to know about a task.
mod analysis {
    pub mod checked_resource;
    pub mod expected;
    pub mod facts;
    pub mod jq_types;
    pub mod orders;
    pub mod pattern;
    pub mod present_state;
    pub mod python;
    pub mod quantity;
    pub mod sql_rows;
    pub mod texts;
    pub mod typed;
}

/// What a task leaves behind, and what it deletes.
mod cleanup {
    pub mod collisions;
    pub mod created_by_request;
    pub mod deleted_by_request;
    pub mod foreign_deletions;
    pub mod incomplete;
    pub mod kubectl_deletions;
    pub mod lasting;
    pub mod leftovers;
    pub mod released;
    pub mod selected_deletions;
    pub mod wide_deletions;
}

/// Evals: agents, judges, servers, assertions, oracles.
mod eval {
    pub mod agent;
    pub mod agent_file;
    pub mod allowed;
    pub mod asserted_arguments;
    pub mod assertion_sense;
    pub mod assertions;
    pub mod config;
    pub mod duplicate_name;
    pub mod judge;
    pub mod known_servers;
    pub mod models;
    pub mod oracle;
    pub mod other_cluster;
    pub mod prompt_in_shell;
    pub mod servers;
    pub mod skills;
    pub mod unlocked;
    pub mod unpinned_server;
}

/// What verify checks, compared with the state that setup leaves.
mod initial {
    pub mod already_true;
    pub mod checks_of_setup;
    pub mod done_by_setup;
    pub mod made_by_setup;
    pub mod rollback;
    pub mod unchanged_value;
}

/// What verify checks, compared with what the prompt asks for.
mod prompt {
    pub mod amounts;
    pub mod choices;
    pub mod coordinates;
    pub mod counts;
    pub mod derived_numbers;
    pub mod disagrees;
    pub mod forms;
    pub mod images;
    pub mod name_affixes;
    pub mod names;
    pub mod numbers;
    pub mod opposites;
    pub mod other_resource;
    pub mod partial_checks;
    pub mod paths;
    pub mod percent;
    pub mod unknown_names;
    pub mod untouched;
    pub mod unverified;
    pub mod values;
    pub mod variable;
    pub mod verify_changes;
    pub mod wrong_state;
}

/// Resources and names that the parts of a task should agree on.
mod resources {
    pub mod addressed;
    pub mod clients;
    pub mod cluster;
    pub mod containers;
    pub mod elsewhere;
    pub mod manifest;
    pub mod missing_resources;
    pub mod near_name;
    pub mod odd_word;
    pub mod omitted;
    pub mod path_parts;
    pub mod series;
    pub mod service_port;
    pub mod unknown_paths;
}

/// Scripts and commands that do something other than what they look like.
mod shell {
    pub mod accepts_more;
    pub mod always_true;
    pub mod answers;
    pub mod argument_names;
    pub mod argument_order;
    pub mod awaited;
    pub mod background;
    pub mod bashism;
    pub mod capture;
    pub mod comparison;
    pub mod constant;
    pub mod constant_commands;
    pub mod dead_check;
    pub mod downloads;
    pub mod embedded;
    pub mod error_branch;
    pub mod executable;
    pub mod exit_status;
    pub mod filters;
    pub mod impossible_values;
    pub mod injection;
    pub mod listing;
    pub mod lost_status;
    pub mod message_subject;
    pub mod misspelt;
    pub mod no_effect;
    pub mod polls;
    pub mod programs;
    pub mod ranges;
    pub mod refusals;
    pub mod repeated_check;
    pub mod same_script;
    pub mod stdin;
    pub mod syntax;
    pub mod unread_variable;
    pub mod unreferenced_script;
    pub mod unresolved_source;
    pub mod unset;
    pub mod unused_answers;
    pub mod use_after_removal;
}

/// Steps, values and expectations of a task, whatever its scripts do.
mod task {
    pub mod contradiction;
    pub mod env;
    pub mod expectations;
    pub mod flow;
    pub mod idle_step;
    pub mod large;
    pub mod no_verdict;
    pub mod orphan;
    pub mod place;
    pub mod requirement;
    pub mod secret;
    pub mod steps;
    pub mod unfilled;
    pub mod unsatisfiable;
    pub mod verify;
}

use std::{ffi::OsStr, ops::Deref};

use rustc_hash::FxHashSet;

use crate::{
    bash::tools::Tools,
    check, decode,
    diagnostic::{Diagnostic, Diagnostics, Rule, Strength},
    dialect,
    effects::{
        Followed, Model,
        asked::{self, Question},
        script,
    },
    hir::{Def, Eval, PhaseKind, Step, Target, Task},
    outside, policy, primitive,
    project::{self, EvalUnit, Project, TaskUnit},
    source::{Files, Sources, Span},
    yaml,
};

use self::{analysis::*, cleanup::*, eval::*, initial::*, prompt::*, resources::*, shell::*, task::*};

pub use agent::TYPES as AGENT_TYPES;
pub use collisions::{Touch, between, touches};
pub use facts::Facts;
pub use large::too_large;
pub use orphan::check as orphans;
pub use shell::unresolved_source;

/// A rule and where it is checked.
#[derive(Debug)]
pub struct Lint {
    pub rule: &'static Rule,
    pub found: Found,
}

/// Where a rule is checked.
#[derive(Debug)]
pub enum Found {
    /// While reading or checking.
    OnTheWay,
    /// In a task, independent of the evals that select it.
    InTask(fn(&TaskView<'_>, &mut Diagnostics)),
    /// In a task under each eval that selects it, or under none.
    UnderEval(fn(&UnderView<'_, '_>, &mut Diagnostics)),
    /// In an eval.
    InEval(fn(&EvalView<'_>, &mut Diagnostics)),
    /// In a task, and in an eval.
    InBoth(fn(&TaskView<'_>, &mut Diagnostics), fn(&EvalView<'_>, &mut Diagnostics)),
    /// In a task under each eval, and in an eval.
    UnderAndInEval(fn(&UnderView<'_, '_>, &mut Diagnostics), fn(&EvalView<'_>, &mut Diagnostics)),
    /// Among all files.
    InProject(fn(&ProjectView<'_>, &mut Diagnostics)),
}

/// A task. Rules that need an eval are notes where there is none (`decisions.md` §2).
#[derive(Clone, Copy)]
pub struct TaskView<'a> {
    pub unit: &'a TaskUnit,
    pub task: &'a Task<Def>,
    /// All scripts of its steps.
    pub scripts: &'a [script::ScriptView<'a>],
    /// The effects of all its steps.
    pub effects: &'a Model<'a>,
    /// The tables of programs.
    pub tools: &'a Tools,
    /// Facts that several rules use, computed on first use.
    pub facts: &'a Facts<'a>,
    /// Whether an eval selects it.
    pub selected: bool,
    /// Whether each eval that selects it has assertions that apply to it.
    pub asserted: bool,
    /// Keys of the task that are not recognized, which have already been reported.
    pub unread: &'a [Span],
    /// Whether rules for other than hard errors apply.
    pub soft: bool,
    pub sources: &'a Sources,
    pub files: &'a dyn Files,
}

/// Verify checks a resource that the task does not concern, or uses a name that nothing else mentions.
fn looks_elsewhere(view: &TaskView<'_>, out: &mut Diagnostics) {
    elsewhere::check(view, out);
    addressed::check(view, out);
    unknown_paths::check(view, out);
    service_port::check(view, out);
    argument_names::check(view, out);
    series::check(view, out);
    missing_resources::check(view, out);
    clients::databases(view, out);
    clients::variables(view, PhaseKind::Verify, out);
    clients::outliers(view, PhaseKind::Verify, out);
    path_parts::saved(view, out);
    omitted::places(view, PhaseKind::Verify, out);
}

/// Verify does not check what the prompt asks for.
fn values_verified(view: &UnderView<'_, '_>, out: &mut Diagnostics) {
    partial_checks::check(view, out);
    unverified::check(view, out);
}

/// A script reads a variable that nothing sets, or that has another default elsewhere.
fn unset_variables(view: &TaskView<'_>, out: &mut Diagnostics) {
    unset::unset(view, out);
    programs::unset(view, out);
    series::defaults(view, out);
    omitted::defaults(view, out);
    omitted::parameters(view, out);
}

/// Cleanup deletes what nothing in the task creates: by commands and steps, or by requests.
fn deletes_foreign(view: &TaskView<'_>, out: &mut Diagnostics) {
    foreign_deletions::check(view, out);
    deleted_by_request::check(view, out);
    lasting::refs(view, out);
    wide_deletions::check(view, out);
    clients::variables(view, PhaseKind::Cleanup, out);
    clients::outliers(view, PhaseKind::Cleanup, out);
    clients::flushes(view, out);
    omitted::places(view, PhaseKind::Cleanup, out);
}

/// A condition of verify that always holds.
fn always_holds(view: &TaskView<'_>, out: &mut Diagnostics) {
    always_true::check(view, out);
    constant_commands::always(view, out);
    choices::both(view, out);
    accepts_more::flags(view, out);
}

/// A value that is never printed.
fn never_printed(view: &TaskView<'_>, out: &mut Diagnostics) {
    let before = out.len();
    impossible_values::check(view, out);
    answers::impossible(view, out);
    counts::sorted(view, out);
    constant_commands::counts(view, out);
    derived_numbers::namespaces(view, out);
    filters::values(view, out);
    // `phase=$(kubectl get … || echo deleted)`: the script itself prints this value.
    let is_fallback = |value: &str| {
        let of_verify = view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify);
        of_verify.into_iter().any(|script| texts::is_fallback(&script.content.text, value))
    };
    let mut at = 0;
    out.retain(|finding| {
        at += 1;
        at <= before || !finding.message.split('`').skip(1).step_by(2).any(is_fallback)
    });
}

/// A comparison that means something else, or whose sides never have the same form.
fn compares_otherwise(view: &TaskView<'_>, out: &mut Diagnostics) {
    comparison::check(view, out);
    answers::compares(view, out);
    filters::comparisons(view, out);
    argument_order::check(view, out);
    ranges::with_none(view, out);
    choices::either(view, out);
    accepts_more::patterns(view, out);
    accepts_more::parameters(view, out);
}

/// A misspelt word, or a field that does not exist.
fn is_misspelt(view: &TaskView<'_>, out: &mut Diagnostics) {
    filters::fields(view, out);
    misspelt::check(view, out);
    containers::check(view, out);
}

/// A key with dots that a path splits.
fn dotted_keys(view: &TaskView<'_>, out: &mut Diagnostics) {
    impossible_values::keys(view, out);
    filters::keys(view, out);
}

/// A check whose exit status decides nothing.
fn status_ignored(view: &TaskView<'_>, out: &mut Diagnostics) {
    dead_check::check(view, out);
    no_effect::ignored(view, out);
    lost_status::check(view, out);
    unused_answers::lists(view, out);
    accepts_more::outputs(view, out);
    accepts_more::breaks(view, out);
    accepts_more::waits(view, out);
    accepts_more::both(view, out);
}

/// A script that always passes.
fn cannot_fail(view: &TaskView<'_>, out: &mut Diagnostics) {
    exit_status::cannot_fail(view, out);
    no_effect::literal_verdict(view, out);
}

/// A wait that passes after its time is up.
fn gives_up_in_success(view: &TaskView<'_>, out: &mut Diagnostics) {
    exit_status::poll(view, out);
    unused_answers::forgotten(view, out);
}

/// A text on the other stream.
fn wrong_stream(view: &TaskView<'_>, out: &mut Diagnostics) {
    capture::stream(view, out);
    capture::on_failure(view, out);
}

/// A branch that only reports a failure.
fn error_continues(view: &TaskView<'_>, out: &mut Diagnostics) {
    error_branch::check(view, out);
    no_effect::given_up(view, out);
    programs::caught(view, out);
}

/// Expectations that nothing can meet, alone or together with those of another check.
fn cannot_hold(view: &TaskView<'_>, out: &mut Diagnostics) {
    unsatisfiable::check(view, out);
    contradiction::check(view, out);
    accepts_more::lengths(view, out);
}

/// A word or a name that is spelled differently elsewhere.
fn looks_misspelt(view: &TaskView<'_>, out: &mut Diagnostics) {
    odd_word::check(view, out);
    opposites::tokens(view, out);
    opposites::paths(view, out);
    near_name::check(view, out);
    path_parts::parts(view, out);
}

/// Conditions that hold before the agent has done anything.
fn done_before(view: &TaskView<'_>, out: &mut Diagnostics) {
    already_true::check(view, out);
    unchanged_value::check(view, out);
    opposites::echoes(view, out);
    opposites::revisions(view, out);
    done_by_setup::check(view, out);
    counts::unchanged(view, out);
    accepts_more::missing(view, out);
    checks_of_setup::said_before(view, out);
    checks_of_setup::totals(view, out);
    made_by_setup::check(view, out);
    derived_numbers::booleans(view, out);
    rollback::check(view, out);
}

/// Checks that were copied and not changed.
fn repeats(view: &TaskView<'_>, out: &mut Diagnostics) {
    repeated_check::check(view, out);
    message_subject::check(view, out);
}

/// An assertion forbids what the prompt asks for, or requires what it does not ask for.
fn needed_tools(view: &UnderView<'_, '_>, out: &mut Diagnostics) {
    known_servers::forbidden(view, out);
    known_servers::unasked(view, out);
}

/// The prompt and verify disagree. Numbers are compared only if nothing else was found.
fn disagrees(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut found = Diagnostics::default();
    paths::check(view, &mut found);
    names::check(view, &mut found);
    amounts::check(view, &mut found);
    values::check(view, &mut found);
    disagrees::check(view, &mut found);
    forms::check(view, &mut found);
    images::check(view, &mut found);
    if found.is_empty() {
        numbers::check(view, &mut found);
    }
    counts::check(view, &mut found);
    opposites::said_otherwise(view, &mut found);
    name_affixes::check(view, &mut found);
    opposites::siblings(view, &mut found);
    name_affixes::without_part(view, &mut found);
    ranges::other_time(view, &mut found);
    choices::others(view, &mut found);
    unknown_names::check(view, &mut found);
    percent::check(view, &mut found);
    derived_numbers::check(view, &mut found);
    derived_numbers::ports(view, &mut found);
    derived_numbers::added(view, &mut found);
    found.retain(|finding| !derived_numbers::explains(view, finding));
    // A condition that contradicts its own message is reported once.
    let is_wrong_state = |known: &&Diagnostic| known.rule.name == wrong_state::WRONG_STATE.name;
    found.retain(|finding| !out.iter().filter(is_wrong_state).any(|known| known.span.contains(finding.span)));
    out.extend(found);
}

/// Verify checks for the opposite of the prompt, or of its own messages.
fn asks_otherwise(view: &TaskView<'_>, out: &mut Diagnostics) {
    wrong_state::check(view, out);
    refusals::check(view, out);
    untouched::check(view, out);
    opposites::states(view, out);
    checks_of_setup::former(view, out);
    choices::refused(view, out);
    other_resource::check(view, out);
    coordinates::check(view, out);
    made_by_setup::revision(view, out);
}

impl<'a> TaskView<'a> {
    /// The script of a step.
    pub fn script_of(&self, step: &Step<Def>) -> Option<&'a script::ScriptView<'a>> {
        self.facts.script_of(self.scripts, step)
    }

    /// The questions that the scripts of verify ask.
    pub fn asked(&self) -> &'a [Question<'a>] {
        self.facts.questions(|| {
            let scripts = self.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify);
            scripts.flat_map(asked::questions).collect()
        })
    }

    /// The analysis of a script.
    pub fn followed(&self, script: &script::ScriptView<'_>) -> Option<&'a Followed<'a>> {
        self.facts.followed(&self.effects.scripts, script)
    }

    /// Whether another step uses an output of this step.
    pub fn uses_output_of(&self, step: &Step<Def>) -> bool {
        let Some(id) = &step.id else { return false };
        let mut used = false;
        self.task.walk(&mut |_, other| {
            other.templates(&mut |text| {
                let is_its = |target: &Target| matches!(target, Target::Output { step, .. } if *step == id.value);
                used |= text.holes().any(|hole| is_its(&hole.reference.target));
            });
        });
        used
    }

    /// Whether the task declares a variable of this name.
    pub fn declares(&self, name: &str) -> bool {
        self.facts.declares(self.task, name)
    }

    /// Whether an unrecognized key is inside `place`: then whatever is missing there is a consequence of it.
    pub fn has_unread(&self, place: Span) -> bool {
        let inside = |key: &Span| key.file == place.file && place.start <= key.start && key.end <= place.end;
        self.unread.iter().any(inside)
    }
}

/// A task under an eval, or under none.
#[derive(Clone, Copy)]
pub struct UnderView<'a, 't> {
    view: &'a TaskView<'t>,
    pub eval: Option<Selecting<'a>>,
    /// Whether an assertion set of the eval applies to the task.
    pub asserted: bool,
}

/// An eval that selects the task. Other evals do not affect its findings.
#[derive(Clone, Copy)]
pub struct Selecting<'a> {
    pub unit: &'a EvalUnit,
    pub eval: &'a Eval,
    /// The indices, in the eval's `task_sets`, of the sets that select the task.
    pub sets: &'a [usize],
}

impl<'a, 't> UnderView<'a, 't> {
    /// A task under an eval. `asserted`: whether an assertion set of the eval applies to the task.
    pub fn new(view: &'a TaskView<'t>, eval: Option<Selecting<'a>>, asserted: bool) -> Self {
        Self { view, eval, asserted }
    }
}

impl<'t> Deref for UnderView<'_, 't> {
    type Target = TaskView<'t>;

    fn deref(&self) -> &Self::Target {
        self.view
    }
}

/// An eval and what it refers to.
#[derive(Clone, Copy)]
pub struct EvalView<'a> {
    pub unit: &'a EvalUnit,
    pub eval: &'a Eval,
    /// The tasks it selects.
    pub tasks: &'a [&'a TaskUnit],
    pub sources: &'a Sources,
    pub files: &'a dyn Files,
}

/// The whole project.
#[derive(Clone, Copy)]
pub struct ProjectView<'a> {
    pub project: &'a Project,
    /// The script files that tasks run.
    pub scripts: &'a FxHashSet<&'a OsStr>,
    pub sources: &'a Sources,
    pub files: &'a dyn Files,
}

const fn way(rule: &'static Rule) -> Lint {
    Lint { rule, found: Found::OnTheWay }
}

/// All rules.
pub static RULES: &[Lint] = &[
    // the text
    way(&yaml::SYNTAX),
    way(&yaml::UNQUOTED_HOLE),
    way(&yaml::DUPLICATE_KEY),
    way(&yaml::SECOND_DOCUMENT),
    way(&yaml::NON_STRING_KEY),
    way(&yaml::UNKNOWN_ANCHOR),
    way(&yaml::UNKNOWN_TAG),
    way(&yaml::ALIAS_EXPANSION),
    way(&yaml::MERGE_KEY),
    way(&yaml::NESTING),
    way(&yaml::YAML_1_1_WORD),
    // files
    way(&project::UNREADABLE_FILE),
    way(&project::WRONG_KIND),
    way(&outside::OUTSIDE_PROJECT),
    way(&project::EMPTY_GLOB),
    way(&project::EMPTY_SELECTION),
    way(&project::SOURCE_NOT_LOCKED),
    way(&project::INVALID_LOCK),
    way(&dialect::UNKNOWN_KIND),
    way(&dialect::UNKNOWN_VERSION),
    way(&dialect::OLD_VERSION),
    // records
    way(&decode::UNKNOWN_FIELD),
    way(&decode::WRONG_TYPE),
    way(&decode::MISSING_FIELD),
    way(&decode::INVALID_DURATION),
    way(&decode::INVALID_PATTERN),
    way(&decode::KEY_CASE),
    way(&decode::COERCED_SCALAR),
    way(&decode::EMPTY_NAME),
    way(&dialect::DIFFICULTY),
    way(&dialect::NO_VERIFY),
    way(&large::TOO_LARGE),
    way(&dialect::PROMPT_SHAPE),
    way(&dialect::NON_POSITIVE_RUNS),
    way(&dialect::STEP_SHAPE),
    way(&dialect::INVALID_ID),
    way(&dialect::legacy::LEGACY_PHASE),
    way(&dialect::legacy::IGNORED_JUDGE),
    way(&decode::EMPTY_VALUE),
    way(&dialect::legacy::EMPTY_PHASE),
    way(&dialect::eval::TASK_SET_SHAPE),
    way(&dialect::eval::INVALID_EVAL_NAME),
    way(&dialect::eval::INVALID_ASSERTION),
    way(&dialect::eval::NO_AGENT),
    way(&dialect::mcp_config::INVALID_SERVER),
    way(&dialect::command::UNSPLIT_COMMAND),
    way(&dialect::command::DEAF_CONTAINER),
    way(&dialect::oracle::ORACLE_CALL),
    // evals that servers ship
    way(&primitive::EVAL_ID),
    way(&primitive::EVAL_GRADING),
    way(&primitive::SAMPLING_MESSAGE),
    way(&primitive::UNUSED_EXPECTATION),
    way(&primitive::SAME_EVAL_TWICE),
    // names and values
    way(&check::UNKNOWN_OPERATION),
    way(&decode::UNKNOWN_TOOL),
    way(&check::WRONG_PHASE),
    way(&check::DUPLICATE_ALIAS),
    Lint { rule: &check::UNUSED_REQUIREMENT, found: Found::UnderEval(requirement::check) },
    way(&check::DUPLICATE_ID),
    way(&check::ENV_CYCLE),
    way(&check::SHADOWED_NAME),
    way(&check::EMPTY_LOOP),
    way(&check::EMPTY_PROMPT),
    way(&check::EXACTLY_ONE),
    way(&decode::INVALID_VALUE),
    way(&check::MISSING_FILE),
    way(&check::UNKNOWN_NAME),
    way(&check::UNKNOWN_STEP),
    way(&check::UNKNOWN_OUTPUT),
    way(&check::OUT_OF_SCOPE),
    way(&check::MAYBE_UNASSIGNED),
    way(&check::WRONG_HOLE_TYPE),
    way(&check::MALFORMED_HOLE),
    way(&check::UNKNOWN_FILTER),
    way(&check::EMPTY_DEFAULT),
    Lint { rule: &check::UNEXPANDED_HOLE, found: Found::InTask(unfilled::check) },
    way(&check::DOUBLE_BRACE),
    way(&check::DOLLAR_BRACE),
    way(&policy::UNUSED_ALLOW),
    way(&policy::UNKNOWN_RULE),
    way(&policy::INVALID_CONFIG),
    way(&orphan::ORPHAN_TASK),
    // verdicts
    Lint { rule: &no_verdict::NO_VERDICT, found: Found::UnderEval(no_verdict::check) },
    Lint { rule: &judge::NO_JUDGE, found: Found::UnderEval(judge::check) },
    Lint { rule: &judge::JUDGE_CANNOT_JUDGE, found: Found::InEval(judge::cannot) },
    Lint { rule: &judge::JUDGE_IS_AGENT, found: Found::InEval(judge::own) },
    Lint { rule: &judge::VAGUE_RUBRIC, found: Found::InTask(judge::vague) },
    // scripts
    Lint { rule: &executable::SCRIPT_NOT_EXECUTABLE, found: Found::InTask(executable::file) },
    way(&executable::SCRIPT_WITHOUT_SHEBANG),
    Lint { rule: &executable::SHEBANG_NOT_FIRST, found: Found::InTask(executable::blank_lines) },
    Lint { rule: &syntax::SCRIPT_SYNTAX, found: Found::InTask(syntax::check) },
    Lint { rule: &exit_status::LAST_COMMAND_DECIDES, found: Found::InTask(exit_status::last_command) },
    Lint { rule: &exit_status::SCRIPT_CANNOT_FAIL, found: Found::InTask(cannot_fail) },
    Lint { rule: &exit_status::SCRIPT_CANNOT_PASS, found: Found::InTask(exit_status::cannot_pass) },
    Lint { rule: &exit_status::POLL_ENDS_IN_SUCCESS, found: Found::InTask(gives_up_in_success) },
    Lint { rule: &unresolved_source::UNRESOLVED_SOURCE, found: Found::InTask(unresolved_source::check) },
    Lint { rule: &unresolved_source::NO_SUCH_FILE, found: Found::InTask(unresolved_source::commands) },
    Lint { rule: &comparison::COMPARES_OTHERWISE, found: Found::InTask(compares_otherwise) },
    Lint { rule: &always_true::ALWAYS_TRUE, found: Found::InTask(always_holds) },
    Lint { rule: &comparison::QUOTED_VARIABLE, found: Found::InTask(comparison::quoted) },
    Lint { rule: &dead_check::STATUS_IGNORED, found: Found::InTask(status_ignored) },
    Lint { rule: &capture::GREP_ENDS_SCRIPT, found: Found::InTask(capture::grep) },
    Lint { rule: &capture::WRONG_STREAM, found: Found::InTask(wrong_stream) },
    Lint { rule: &capture::CURL_WITHOUT_FAIL, found: Found::InTask(capture::curl) },
    Lint { rule: &use_after_removal::USED_AFTER_REMOVAL, found: Found::InTask(use_after_removal::check) },
    Lint { rule: &stdin::STDIN_EATING_COMMAND, found: Found::InTask(stdin::check) },
    Lint { rule: &background::BACKGROUND_PROCESS, found: Found::InTask(background::check) },
    Lint { rule: &same_script::SAME_SCRIPT_TWICE, found: Found::InTask(same_script::check) },
    Lint { rule: &unreferenced_script::UNREFERENCED_SCRIPT, found: Found::InProject(unreferenced_script::check) },
    Lint { rule: &bashism::BASHISM, found: Found::InTask(bashism::check) },
    Lint { rule: &injection::SHELL_INJECTION, found: Found::InTask(injection::check) },
    Lint { rule: &kubectl_deletions::GLOB_IN_DELETE, found: Found::InTask(kubectl_deletions::glob) },
    Lint { rule: &kubectl_deletions::VERIFY_DELETES, found: Found::InTask(kubectl_deletions::in_verify) },
    Lint { rule: &verify_changes::VERIFY_MAKES, found: Found::InTask(verify_changes::check) },
    // prompts
    Lint { rule: &unread_variable::UNEXPANDED_VARIABLE, found: Found::InTask(unread_variable::check) },
    Lint { rule: &variable::SHELL_VARIABLE_IN_PROMPT, found: Found::InTask(variable::check) },
    Lint { rule: &prompt_in_shell::UNKNOWN_TEMPLATE_FIELD, found: Found::InEval(prompt_in_shell::fields) },
    Lint { rule: &prompt_in_shell::PROMPT_IN_SHELL_TEXT, found: Found::InEval(prompt_in_shell::context) },
    Lint { rule: &prompt_in_shell::PROMPT_NOT_PASSED, found: Found::InEval(prompt_in_shell::passed) },
    Lint { rule: &decode::VACUOUS_EXPECTATION, found: Found::InTask(expectations::check) },
    Lint { rule: &unsatisfiable::UNSATISFIABLE_EXPECTATION, found: Found::InTask(cannot_hold) },
    Lint { rule: &unsatisfiable::IMPOSSIBLE_TOOL_NAME, found: Found::InEval(unsatisfiable::tool_names) },
    Lint { rule: &verify::UNFALSIFIABLE_VERIFY, found: Found::InTask(verify::unfalsifiable) },
    Lint { rule: &verify::ABSENCE_ALONE, found: Found::InTask(verify::absence_alone) },
    Lint { rule: &idle_step::STEP_DECIDES_NOTHING, found: Found::InTask(idle_step::check) },
    Lint { rule: &listing::VERIFY_ONLY_LISTS, found: Found::InTask(listing::check) },
    Lint { rule: &verify::PROMPT_CONTAINS_ANSWER, found: Found::InTask(verify::prompt_answers) },
    Lint { rule: &unverified::VALUE_NOT_VERIFIED, found: Found::UnderEval(values_verified) },
    Lint { rule: &already_true::ALREADY_TRUE, found: Found::InTask(done_before) },
    Lint { rule: &wrong_state::WRONG_STATE, found: Found::InTask(asks_otherwise) },
    Lint { rule: &disagrees::PROMPT_DISAGREES, found: Found::InTask(disagrees) },
    Lint { rule: &verify::JUDGE_DECIDES_ALONE, found: Found::InTask(verify::judge_alone) },
    Lint { rule: &steps::IS_ERROR_ALSO_PASSES, found: Found::InTask(steps::is_error) },
    Lint { rule: &steps::HTTP_WITHOUT_STATUS, found: Found::InTask(steps::status) },
    Lint { rule: &steps::LOOSE_EQUALS, found: Found::InTask(steps::loose) },
    Lint { rule: &steps::DOTTED_INDEX, found: Found::InTask(steps::dotted) },
    Lint { rule: &steps::CONTINUE_ON_ERROR_IN_VERIFY, found: Found::InTask(steps::continues) },
    Lint { rule: &steps::CONTINUE_ON_ERROR_IN_CLEANUP, found: Found::InTask(steps::continues_in_cleanup) },
    Lint { rule: &dialect::eval::ALWAYS_TRUE_ASSERTION, found: Found::InEval(assertion_sense::always) },
    Lint { rule: &assertion_sense::CONTRADICTORY_ASSERTIONS, found: Found::InEval(assertion_sense::contradictory) },
    Lint { rule: &assertion_sense::UNANCHORED_TOOL_PATTERN, found: Found::InEval(assertion_sense::unanchored) },
    Lint { rule: &assertion_sense::REDUNDANT_NAME_AND_PATTERN, found: Found::InEval(assertion_sense::both) },
    Lint { rule: &skills::SKILLS_WITHOUT_SOURCES, found: Found::InEval(skills::without) },
    Lint { rule: &skills::SKILLS_NOT_TAKEN, found: Found::InEval(skills::taken) },
    Lint { rule: &skills::SKILLS_NOT_SEEN, found: Found::InEval(skills::seen) },
    Lint { rule: &skills::UNKNOWN_SKILL, found: Found::InProject(skills::known) },
    // flow
    Lint { rule: &flow::UNUSED_OUTPUT, found: Found::UnderEval(flow::unused) },
    Lint { rule: &flow::OVERWRITTEN_OUTPUT, found: Found::InTask(flow::overwritten) },
    Lint { rule: &flow::UNPRINTED_OUTPUT, found: Found::InTask(flow::unprinted) },
    Lint { rule: &env::UNUSED_ENV, found: Found::UnderEval(env::unused) },
    Lint {
        rule: &env::UNDECLARED_PROCESS_VARIABLE,
        found: Found::InBoth(unset::undeclared, env::undeclared_by_oracle),
    },
    Lint { rule: &unset::UNSET_VARIABLE, found: Found::InTask(unset_variables) },
    way(&unset::BAD_EXPANSION),
    Lint { rule: &unset::VALUE_LOST_IN_SUBSHELL, found: Found::InTask(unset::lost) },
    Lint { rule: &env::HIDES_SYSTEM_VARIABLE, found: Found::InTask(env::hides) },
    Lint { rule: &steps::TIMEOUT_BEYOND_TASK, found: Found::UnderEval(steps::timeouts) },
    Lint { rule: &polls::ONE_ROUND_LOOP, found: Found::InTask(polls::rounds) },
    Lint { rule: &repeated_check::REPEATED_CHECK, found: Found::InTask(repeats) },
    Lint { rule: &awaited::NOT_AWAITED, found: Found::InTask(awaited::check) },
    Lint { rule: &steps::FIXED_SLEEP, found: Found::InTask(steps::sleeps) },
    Lint { rule: &place::PATH_LEAVES_TASK, found: Found::UnderEval(place::task_paths) },
    Lint { rule: &place::ABSOLUTE_PATH, found: Found::InEval(place::eval_paths) },
    Lint { rule: &collisions::SAME_RESOURCE_IN_PARALLEL_TASKS, found: Found::InTask(collisions::runs) },
    Lint { rule: &downloads::DOWNLOAD_WITHOUT_DIGEST, found: Found::InTask(downloads::check) },
    // the environment
    Lint { rule: &released::RESOURCE_NOT_RELEASED, found: Found::InTask(incomplete::released) },
    Lint { rule: &leftovers::NOT_RESET, found: Found::InTask(leftovers::check) },
    Lint { rule: &foreign_deletions::DELETES_FOREIGN_RESOURCE, found: Found::InTask(deletes_foreign) },
    Lint { rule: &misspelt::MISSPELT_VALUE, found: Found::InTask(is_misspelt) },
    Lint { rule: &manifest::INVALID_MANIFEST, found: Found::InTask(manifest::check) },
    Lint { rule: &impossible_values::IMPOSSIBLE_VALUE, found: Found::InTask(never_printed) },
    Lint { rule: &impossible_values::DOTTED_KEY, found: Found::InTask(dotted_keys) },
    Lint { rule: &elsewhere::UNKNOWN_RESOURCE, found: Found::InTask(looks_elsewhere) },
    Lint { rule: &cluster::UNKNOWN_NAMESPACE, found: Found::InTask(series::namespace) },
    Lint { rule: &cluster::CLEANUP_NEEDS_IGNORE_NOT_FOUND, found: Found::InTask(incomplete::ignore_not_found) },
    Lint { rule: &cluster::DELETE_THEN_CREATE, found: Found::InTask(cluster::race) },
    Lint { rule: &error_branch::ERROR_BRANCH_CONTINUES, found: Found::InTask(error_continues) },
    Lint { rule: &verify::EXACT_WORDS_OF_ANSWER, found: Found::InTask(verify::exact_words) },
    // After the rules that know the meaning of a word.
    Lint { rule: &odd_word::ODD_WORD, found: Found::InTask(looks_misspelt) },
    // evals
    Lint { rule: &agent::UNKNOWN_AGENT, found: Found::InEval(agent::check) },
    Lint { rule: &servers::UNKNOWN_SERVER, found: Found::UnderAndInEval(servers::required, oracle::calls) },
    Lint {
        rule: &known_servers::UNLISTED_TOOL,
        found: Found::UnderAndInEval(known_servers::steps, known_servers::tools),
    },
    Lint { rule: &known_servers::OUT_OF_REACH, found: Found::UnderEval(known_servers::roots) },
    Lint {
        rule: &known_servers::NEEDED_TOOL_FORBIDDEN,
        found: Found::UnderAndInEval(needed_tools, known_servers::refused),
    },
    Lint { rule: &servers::NO_TOOLS_PERMITTED, found: Found::InEval(servers::permitted) },
    Lint { rule: &servers::REDUNDANT_ALWAYS_ALLOW, found: Found::InEval(servers::redundant) },
    Lint { rule: &allowed::SOURCE_NOT_ALLOWED, found: Found::InEval(allowed::allowed) },
    Lint { rule: &allowed::DENIED_EXTENSION, found: Found::InEval(allowed::denied) },
    Lint { rule: &allowed::RELEASE_NOT_LOCKED, found: Found::InEval(allowed::locked) },
    Lint { rule: &allowed::EXTENSION_NOT_AS_LOCKED, found: Found::InEval(allowed::as_locked) },
    Lint { rule: &other_cluster::OTHER_CLUSTER, found: Found::InEval(other_cluster::check) },
    Lint { rule: &unlocked::NOT_LOCKED, found: Found::InEval(unlocked::check) },
    Lint { rule: &unlocked::UNREAD_SCHEMA, found: Found::InEval(unlocked::unread) },
    Lint { rule: &unpinned_server::UNPINNED_SERVER, found: Found::InEval(unpinned_server::check) },
    Lint { rule: &assertions::IMPOSSIBLE_COUNT, found: Found::InEval(assertions::check) },
    Lint { rule: &duplicate_name::DUPLICATE_TASK_NAME, found: Found::InEval(duplicate_name::check) },
    Lint { rule: &models::MODEL_WITHOUT_PROVIDER, found: Found::InEval(models::provider) },
    Lint { rule: &models::UNKNOWN_PROVIDER, found: Found::InEval(models::unknown_provider) },
    Lint { rule: &models::INVALID_ENDPOINT, found: Found::InEval(models::endpoint) },
    Lint { rule: &models::DEPRECATED_AGENT, found: Found::InEval(models::deprecated) },
    Lint { rule: &models::DEPRECATED_JUDGE_ENV, found: Found::InEval(models::judge_env) },
    Lint { rule: &agent_file::IGNORED_AGENT_PART, found: Found::InEval(agent_file::ignored) },
    Lint { rule: &agent_file::EMPTY_COMMANDS, found: Found::InEval(agent_file::empty) },
    Lint { rule: &agent_file::SERVERS_NOT_PASSED, found: Found::InEval(agent_file::served) },
    Lint { rule: &decode::SECRET_IN_CLEAR, found: Found::InBoth(secret::in_task, secret::in_eval) },
    Lint { rule: &config::RELATIVE_SERVER_COMMAND, found: Found::InEval(config::relative) },
    Lint { rule: &config::UNKNOWN_EXTENSION, found: Found::UnderEval(config::unknown_extension) },
    Lint { rule: &config::UNUSED_EXTENSION, found: Found::InEval(config::unused_extension) },
    Lint { rule: &config::UNUSED_SOURCE, found: Found::InEval(config::unused_source) },
    Lint { rule: &config::MISSING_DIFFICULTY, found: Found::InEval(config::difficulty) },
    Lint { rule: &oracle::NO_ORACLE_ENTRY, found: Found::UnderEval(oracle::missing) },
    Lint { rule: &oracle::UNUSED_ORACLE_ENTRY, found: Found::InProject(oracle::unused) },
];

/// The rule with this name.
pub fn rule(name: &str) -> Option<&'static Rule> {
    RULES.iter().map(|l| l.rule).find(|r| r.name == name)
}

/// Runs every rule about a task, independent of its evals.
pub fn in_task(view: &TaskView<'_>, out: &mut Diagnostics) {
    for lint in RULES.iter().filter(|lint| view.soft || lint.rule.strength == Strength::Hard) {
        if let Found::InTask(check) | Found::InBoth(check, _) = lint.found {
            check(view, out);
        }
    }
}

/// Runs every rule about a task under an eval.
pub fn under_eval(view: &UnderView<'_, '_>, out: &mut Diagnostics) {
    for lint in RULES.iter().filter(|lint| view.soft || lint.rule.strength == Strength::Hard) {
        if let Found::UnderEval(check) | Found::UnderAndInEval(check, _) = lint.found {
            check(view, out);
        }
    }
}

/// Runs every rule about an eval.
pub fn in_eval(view: &EvalView<'_>, out: &mut Diagnostics) {
    for lint in RULES {
        if let Found::InEval(check) | Found::InBoth(_, check) | Found::UnderAndInEval(_, check) = lint.found {
            check(view, out);
        }
    }
}

/// Runs every rule about the whole project.
pub fn in_project(view: &ProjectView<'_>, out: &mut Diagnostics) {
    for lint in RULES {
        if let Found::InProject(check) = lint.found {
            check(view, out);
        }
    }
}

/// The edit that writes `key: value` before the key at `at`.
fn before_key(view: &TaskView<'_>, at: Span, key: &str, value: &str) -> Option<(Span, String)> {
    let separator = match view.unit.tree.mapping_of(at)?.style() {
        yaml::Style::Flow => ", ".to_owned(),
        _ => format!("\n{}", script::margin(&view.sources.get(at.file), at)?),
    };
    Some((at.head(), format!("{key}: {value}{separator}")))
}
