//! `gevals result export parquet`: results as a table with one row per run of a task. [`COLUMNS`] describes the
//! columns.
//!
//! The table is written in row groups, one of which is in memory at a time.

use std::{fmt::Write as _, io::Write, sync::Arc};

use parquet::{
    basic::{Compression, ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel},
    data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type},
    errors::ParquetError,
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::types::Type,
};
use serde_json::{Map, Value};

use super::{RunResult, Tokens};

/// The maximum number of rows in a group, and the approximate maximum of bytes of text.
const ROWS: usize = 20_000;
const TEXT: usize = 32 << 20;
/// The maximum length of a text, in bytes; longer texts are cut.
const LONGEST: usize = 32 << 10;

/// A column of the table.
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    /// The description, for people.
    pub about: &'static str,
    get: fn(&Row<'_>) -> Cell,
}

/// The type of a column. All columns are nullable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Text,
    Texts,
    Whole,
    Real,
    Truth,
    /// Microseconds since 1970, UTC.
    Time,
}

impl Kind {
    /// The name of the type in Parquet.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Text => "string",
            Kind::Texts => "list of string",
            Kind::Whole => "int64",
            Kind::Real => "double",
            Kind::Truth => "boolean",
            Kind::Time => "timestamp, UTC",
        }
    }
}

enum Cell {
    Text(Option<String>),
    Texts(Vec<String>),
    Whole(Option<i64>),
    Real(Option<f64>),
    Truth(Option<bool>),
}

/// A run of a task, and the file that contains it.
struct Row<'r> {
    file: &'r str,
    summary: &'r Map<String, Value>,
    result: &'r RunResult,
    tokens: Tokens,
    calls: Calls,
    votes: Votes,
}

#[derive(Default)]
struct Calls {
    /// Whether the calls are known at all.
    known: bool,
    tools: i64,
    failed: i64,
    resources: i64,
    prompts: i64,
}

/// Votes of judges.
#[derive(Default)]
struct Votes {
    all: i64,
    passed: i64,
}

fn text(text: &str) -> Cell {
    Cell::Text((!text.is_empty()).then(|| text.to_owned()))
}

fn whole(number: Option<u64>) -> Cell {
    Cell::Whole(number.and_then(|number| i64::try_from(number).ok()))
}

fn counted(count: usize) -> Cell {
    whole(u64::try_from(count).ok())
}

impl Row<'_> {
    fn of_summary(&self, path: &str) -> Option<&Value> {
        let mut keys = path.split('/');
        let first = self.summary.get(keys.next()?)?;
        keys.try_fold(first, |value, key| value.get(key))
    }

    fn said(&self, path: &str) -> Cell {
        text(self.of_summary(path).and_then(Value::as_str).unwrap_or_default())
    }

    fn truth(&self, key: &str) -> Cell {
        Cell::Truth(self.result.0.get(key).and_then(Value::as_bool))
    }

    fn called(&self, count: i64) -> Cell {
        Cell::Whole(self.calls.known.then_some(count))
    }
}

macro_rules! columns {
    ($($name:literal $kind:ident $about:literal $get:expr;)*) => {
        /// The columns of the table.
        pub const COLUMNS: &[Column] = &[$(Column { name: $name, kind: Kind::$kind, about: $about, get: $get }),*];
    };
}

columns! {
    "file" Text "the results file, as it was named or found" |row| text(row.file);
    "eval" Text "the eval" |row| row.said("eval");
    "run_id" Text "the run of the eval" |row| row.said("runId");
    "started_at" Time "when the run of the eval began" |row| row.said("startedAt");
    "agent" Text "the agent's name" |row| row.said("agent/name");
    "agent_type" Text "the agent's type" |row| row.said("agent/type");
    "model" Text "the agent's model, where the eval or the command line names one" |row| row.said("agent/model");
    "judge_model" Text "the judge's model" |row| row.said("judge/model");
    "task" Text "the task's name" |row| text(row.result.name());
    "path" Text "the task's file" |row| text(row.result.path());
    "difficulty" Text "the task's difficulty" |row| text(row.result.difficulty());
    "tags" Texts "the task's tags" |row| Cell::Texts(row.result.tags().map(str::to_owned).collect());
    "run" Whole "which run of the task, from 1" |row| whole(Some(row.result.run().0));
    "runs" Whole "how many runs of it were to be made" |row| whole(Some(row.result.run().1));
    "outcome" Text "`passed`, `failed`, `broken`, `unchecked` or `cancelled`; other tools know only the first two"
        |row| text(row.result.outcome().unwrap_or(if row.result.passed() { "passed" } else { "failed" }));
    "passed" Truth "whether it passed" |row| Cell::Truth(Some(row.result.passed()));
    "failure" Text "why it did not pass, in a line" |row| text(&row.result.why());
    "timed_out" Truth "whether the task's time was over" |row| Cell::Truth(Some(row.result.timed_out()));
    "cleanup_failed" Truth "whether a cleanup step did not pass" |row| row.truth("cleanupFailed");
    "retries" Whole "how often it was made again"
        |row| counted(row.result.0.get("retries").and_then(Value::as_array).map_or(0, Vec::len));
    "seconds" Real "how long it took" |row| Cell::Real(row.result.seconds());
    "tokens" Whole "of the agent, those of servers' schemas aside" |row| whole(row.tokens.estimated);
    "tokens_guessed" Truth "whether these were counted here, not reported"
        |row| Cell::Truth(row.tokens.estimated.map(|_| row.tokens.guessed));
    "input_tokens" Whole "of the agent, as reported" |row| whole(row.tokens.agent_input);
    "output_tokens" Whole "of the agent, as reported" |row| whole(row.tokens.agent_output);
    "schema_tokens" Whole "of the schemas of servers" |row| whole(row.tokens.schema);
    "judge_input_tokens" Whole "of judges" |row| whole(row.tokens.judge_input);
    "judge_output_tokens" Whole "of judges" |row| whole(row.tokens.judge_output);
    "cost" Real "by the prices of the run" |row| Cell::Real(row.tokens.cost.filter(|cost| cost.is_finite()));
    "currency" Text "of the cost" |row| row.said("currency");
    "tool_calls" Whole "calls of tools by the agent" |row| row.called(row.calls.tools);
    "failed_tool_calls" Whole "those of them that a tool or a server answered with an error" |row| row.called(row.calls.failed);
    "resource_reads" Whole "resources that the agent read" |row| row.called(row.calls.resources);
    "prompt_gets" Whole "prompts that the agent got" |row| row.called(row.calls.prompts);
    "assertions" Whole "kinds of assertions" |row| counted(row.result.assertion_counts().1);
    "assertions_passed" Whole "those of them that hold" |row| counted(row.result.assertion_counts().0);
    "judge_votes" Whole "decisions of judges" |row| Cell::Whole(Some(row.votes.all));
    "judge_votes_passed" Whole "those of them that let it pass" |row| Cell::Whole(Some(row.votes.passed));
    "judge_reason" Text "what the first judge said" |row| text(row.result.judge_reason().unwrap_or_default());
    "plan_digest" Text "the plan of the task: the same digest, the same plan" |row| text(row.result.plan_digest());
    "eval_digest" Text "the plan of the eval" |row| row.said("planDigest");
    "unit" Text "the unit of a pack" |row| row.said("unit/id");
    "pack" Text "the digest of this pack" |row| row.said("unit/pack");
    "gevals_version" Text "of the gevals that ran it" |row| row.said("gevalsVersion");
}

/// Writes a table.
pub struct Table<W: Write + Send> {
    out: SerializedFileWriter<W>,
    rows: usize,
    text: usize,
    all: u64,
    columns: Vec<Values>,
}

/// The values of a column in a row group, with the levels that mark missing values.
struct Values {
    levels: Vec<i16>,
    /// For lists: whether a value starts a row (0) or continues it (1).
    begins: Vec<i16>,
    values: Typed,
}

enum Typed {
    Text(Vec<ByteArray>),
    Texts(Vec<ByteArray>),
    Whole(Vec<i64>),
    Real(Vec<f64>),
    Truth(Vec<bool>),
    Time(Vec<i64>),
}

impl Values {
    fn new(kind: Kind) -> Self {
        let values = match kind {
            Kind::Text => Typed::Text(Vec::new()),
            Kind::Texts => Typed::Texts(Vec::new()),
            Kind::Whole => Typed::Whole(Vec::new()),
            Kind::Real => Typed::Real(Vec::new()),
            Kind::Truth => Typed::Truth(Vec::new()),
            Kind::Time => Typed::Time(Vec::new()),
        };
        Self { levels: Vec::new(), begins: Vec::new(), values }
    }

    /// Adds a cell; returns how many bytes of text it has.
    fn push(&mut self, cell: Cell) -> usize {
        let mut level = 0;
        let mut bytes = 0;
        let mut keep = |text: String| {
            let text = cut(text);
            bytes += text.len();
            ByteArray::from(text.into_bytes())
        };
        match (&mut self.values, cell) {
            (Typed::Text(values), Cell::Text(Some(text))) => {
                values.push(keep(text));
                level = 1;
            }
            (Typed::Time(values), Cell::Text(Some(text))) => {
                if let Ok(time) = text.parse::<jiff::Timestamp>() {
                    values.push(time.as_microsecond());
                    level = 1;
                }
            }
            (Typed::Whole(values), Cell::Whole(Some(number))) => {
                values.push(number);
                level = 1;
            }
            (Typed::Real(values), Cell::Real(Some(number))) => {
                values.push(number);
                level = 1;
            }
            (Typed::Truth(values), Cell::Truth(Some(truth))) => {
                values.push(truth);
                level = 1;
            }
            (Typed::Texts(values), Cell::Texts(texts)) => {
                // The level of an empty list is one less than that of a value.
                let (empty, value) = (1, 2);
                if texts.is_empty() {
                    self.levels.push(empty);
                    self.begins.push(0);
                }
                for (nth, text) in texts.into_iter().enumerate() {
                    values.push(keep(text));
                    self.levels.push(value);
                    self.begins.push(i16::from(nth > 0));
                }
                return bytes;
            }
            _ => {}
        }
        self.levels.push(level);
        bytes
    }
}

/// Cuts a text to the maximum length, and marks it if it was longer.
fn cut(mut text: String) -> String {
    if text.len() > LONGEST {
        let mut end = LONGEST;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

impl<W: Write + Send> Table<W> {
    /// Creates an empty table.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn new(out: W) -> Result<Self, String> {
        let build = || {
            let fields = COLUMNS.iter().map(|column| field(column).map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
            let schema = Type::group_type_builder("gevals").with_fields(fields).build()?;
            let properties = WriterProperties::builder()
                .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
                .set_created_by(format!("gevals {}", env!("CARGO_PKG_VERSION")))
                .build();
            SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))
        };
        let out = build().map_err(|error: ParquetError| error.to_string())?;
        Ok(Self { out, rows: 0, text: 0, all: 0, columns: Self::empty() })
    }

    fn empty() -> Vec<Values> {
        COLUMNS.iter().map(|column| Values::new(column.kind)).collect()
    }

    /// Adds a result from a file with this name and summary.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn add(&mut self, file: &str, summary: &Map<String, Value>, result: &RunResult) -> Result<(), String> {
        let (calls, votes) = (calls(result), votes(result));
        let row = Row { file, summary, result, tokens: result.tokens(), calls, votes };
        for (column, values) in COLUMNS.iter().zip(&mut self.columns) {
            self.text += values.push((column.get)(&row));
        }
        self.rows += 1;
        self.all += 1;
        if self.rows >= ROWS || self.text >= TEXT { self.flush().map_err(|error| error.to_string()) } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        (self.rows, self.text) = (0, 0);
        let mut group = self.out.next_row_group()?;
        for column in std::mem::replace(&mut self.columns, Self::empty()) {
            let Some(mut writer) = group.next_column()? else { break };
            let (levels, begins) = (Some(column.levels.as_slice()), Some(column.begins.as_slice()));
            match column.values {
                Typed::Text(values) => writer.typed::<ByteArrayType>().write_batch(&values, levels, None)?,
                Typed::Texts(values) => writer.typed::<ByteArrayType>().write_batch(&values, levels, begins)?,
                Typed::Whole(values) | Typed::Time(values) => {
                    writer.typed::<Int64Type>().write_batch(&values, levels, None)?
                }
                Typed::Real(values) => writer.typed::<DoubleType>().write_batch(&values, levels, None)?,
                Typed::Truth(values) => writer.typed::<BoolType>().write_batch(&values, levels, None)?,
            };
            writer.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Completes the table; returns the writer and the number of rows.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn done(mut self) -> Result<(W, u64), String> {
        let ended = self.flush().and_then(|()| self.out.into_inner());
        Ok((ended.map_err(|error| error.to_string())?, self.all))
    }
}

fn field(column: &Column) -> Result<Type, ParquetError> {
    let string = |name: &str, repetition: Repetition| {
        Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
            .with_logical_type(Some(LogicalType::String))
            .with_converted_type(ConvertedType::UTF8)
            .with_repetition(repetition)
            .build()
    };
    let plain = |physical| Type::primitive_type_builder(column.name, physical).with_repetition(Repetition::OPTIONAL);
    match column.kind {
        Kind::Text => string(column.name, Repetition::OPTIONAL),
        Kind::Whole => plain(Physical::INT64).build(),
        Kind::Real => plain(Physical::DOUBLE).build(),
        Kind::Truth => plain(Physical::BOOLEAN).build(),
        Kind::Time => {
            let utc = LogicalType::timestamp(true, TimeUnit::MICROS);
            plain(Physical::INT64).with_logical_type(Some(utc)).build()
        }
        Kind::Texts => {
            let element = string("element", Repetition::REQUIRED)?;
            let list = Type::group_type_builder("list")
                .with_repetition(Repetition::REPEATED)
                .with_fields(vec![Arc::new(element)])
                .build()?;
            Type::group_type_builder(column.name)
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(Some(LogicalType::List))
                .with_converted_type(ConvertedType::LIST)
                .with_fields(vec![Arc::new(list)])
                .build()
        }
    }
}

fn calls(result: &RunResult) -> Calls {
    let Some(Value::Object(history)) = result.0.get("callHistory") else { return Calls::default() };
    let of = |key: &str| history.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let count = |calls: &[Value]| i64::try_from(calls.len()).unwrap_or(i64::MAX);
    let failed = |call: &&Value| {
        let status = call.get("status").and_then(Value::as_str);
        status.map_or(call.get("success") == Some(&Value::Bool(false)), |status| status != "ok")
    };
    let tools = of("ToolCalls");
    Calls {
        known: true,
        tools: count(tools),
        failed: i64::try_from(tools.iter().filter(failed).count()).unwrap_or(i64::MAX),
        resources: count(of("ResourceReads")),
        prompts: count(of("PromptGets")),
    }
}

fn votes(result: &RunResult) -> Votes {
    fn of(step: &Value, depth: usize, votes: &mut Votes) {
        const DEEPEST: usize = 16;
        if let Some(passed) = step.pointer("/report/judgement/passed").and_then(Value::as_bool) {
            votes.all += 1;
            votes.passed += i64::from(passed);
        }
        if depth < DEEPEST {
            let inner = step.get("steps").and_then(Value::as_array).into_iter().flatten();
            inner.for_each(|inner| of(inner, depth + 1, votes));
        }
    }
    let mut votes = Votes::default();
    for phase in ["setupOutput", "verifyOutput"] {
        let steps = result.0.get(phase).and_then(|phase| phase.get("Steps")?.as_array());
        steps.into_iter().flatten().for_each(|step| of(step, 0, &mut votes));
    }
    votes
}

/// The columns as a Markdown table.
pub fn markdown() -> String {
    let mut out = "| column | type | |\n|---|---|---|\n".to_owned();
    for Column { name, kind, about, .. } in COLUMNS {
        let _ = writeln!(out, "| `{name}` | {} | {about} |", kind.name());
    }
    out
}
