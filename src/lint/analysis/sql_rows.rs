//! The tables and rows that setup creates with literal SQL statements, and queries that can be evaluated on them.

use crate::{
    effects::{self, shell::Run, value::Value},
    hir::PhaseKind,
    lint::TaskView,
    source::{Span, resolve},
};

/// A table that setup creates.
#[derive(Debug)]
pub struct Table {
    /// In lowercase, without its schema.
    pub name: String,
    /// In lowercase.
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Cell>>,
    /// Whether these are all rows and all columns.
    is_whole: bool,
    /// The command that inserts the last row.
    pub span: Span,
}

/// A value in a table.
#[derive(Clone, PartialEq, Debug)]
pub enum Cell {
    Null,
    Literal(String),
    Unknown,
}

impl Cell {
    /// Whether two values are equal. `None` if this is not known.
    fn is(&self, other: &Self) -> Option<bool> {
        match (self, other) {
            (Self::Literal(a), Self::Literal(b)) => match (a.parse::<f64>(), b.parse::<f64>()) {
                (Ok(a), Ok(b)) => Some(a == b),
                // A database may compare texts in any case.
                _ if a.eq_ignore_ascii_case(b) && a != b => None,
                _ => Some(a == b),
            },
            (Self::Unknown, _) | (_, Self::Unknown) => None,
            _ => Some(false),
        }
    }

    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Literal(text) => text.parse().ok(),
            _ => None,
        }
    }
}

/// A part of a statement.
#[derive(Clone, PartialEq, Debug)]
enum Token {
    /// A name or a keyword, in lowercase.
    Word(String),
    /// A text in single quotes.
    Text(String),
    Number(String),
    Sign(char),
}

impl Token {
    fn is(&self, word: &str) -> bool {
        match self {
            Self::Word(known) => known == word,
            Self::Sign(sign) => word.chars().eq([*sign]),
            _ => false,
        }
    }
}

/// The tokens of SQL statements. `None` if a quote is not closed.
fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c.is_whitespace() {
            rest = &rest[c.len_utf8()..];
        } else if rest.starts_with("--") {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/")?.1;
        } else if matches!(c, '\'' | '"' | '`') {
            let (mut inner, mut behind) = (String::new(), &rest[1..]);
            loop {
                let end = behind.find(c)?;
                inner.push_str(&behind[..end]);
                behind = &behind[end + 1..];
                match behind.strip_prefix(c) {
                    Some(more) => {
                        inner.push(c);
                        behind = more;
                    }
                    None => break,
                }
            }
            found.push(if c == '\'' { Token::Text(inner) } else { Token::Word(inner.to_lowercase()) });
            rest = behind;
        } else if c.is_ascii_digit() {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).unwrap_or(rest.len());
            found.push(Token::Number(rest[..end].to_owned()));
            rest = &rest[end..];
        } else if c.is_alphabetic() || c == '_' {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            found.push(Token::Word(rest[..end].to_lowercase()));
            rest = &rest[end..];
        } else {
            found.push(Token::Sign(c));
            rest = &rest[c.len_utf8()..];
        }
    }
    Some(found)
}

/// The name at the start of some tokens without its schema, and the tokens after it.
fn name(mut tokens: &[Token]) -> Option<(String, &[Token])> {
    loop {
        let [Token::Word(first), rest @ ..] = tokens else { return None };
        match rest {
            [Token::Sign('.'), behind @ ..] => tokens = behind,
            _ => return Some((first.clone(), rest)),
        }
    }
}

/// The parts in the parentheses at the start of some tokens, and the tokens after them.
fn in_parentheses(tokens: &[Token]) -> Option<(Vec<&[Token]>, &[Token])> {
    let [Token::Sign('('), ..] = tokens else { return None };
    let (mut parts, mut start, mut depth) = (Vec::new(), 1, 0_usize);
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Sign('(') => depth += 1,
            Token::Sign(')') => {
                depth -= 1;
                if depth == 0 {
                    parts.push(tokens.get(start..at)?);
                    return Some((parts, tokens.get(at + 1..)?));
                }
            }
            Token::Sign(',') if depth == 1 => {
                parts.push(tokens.get(start..at)?);
                start = at + 1;
            }
            _ => {}
        }
    }
    None
}

fn cell(tokens: &[Token]) -> Cell {
    match tokens {
        [Token::Text(text)] if !text.contains(['…', '{', '$']) => Cell::Literal(text.clone()),
        [Token::Number(text)] => Cell::Literal(text.clone()),
        [Token::Sign('-'), Token::Number(text)] => Cell::Literal(format!("-{text}")),
        [Token::Word(word)] if matches!(word.as_str(), "true" | "false") => Cell::Unknown,
        [Token::Word(word)] if word == "null" => Cell::Null,
        _ => Cell::Unknown,
    }
}

/// The tables that setup creates and fills with literal rows only, or nothing if setup runs statements whose effects
/// are not known.
pub fn tables(view: &TaskView<'_>) -> Vec<Table> {
    let mut found = Vec::new();
    if !view.effects.sees(PhaseKind::Setup) {
        return found;
    }
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Setup) {
        for run in &script.trace.runs {
            let Some(text) = effects::sql_of(run, view.tools) else { continue };
            let text = match text.literal() {
                Some(text) => Some(text.to_owned()),
                None if text == Value::unknown() => in_file(view, run, script.view.dir.as_deref()),
                // Holes in texts.
                None => Some(text.shown()),
            };
            let span = run.content.span(run.statement.range.clone());
            let before = found.len();
            if text.and_then(|text| execute(&text, span, &mut found)).is_none() {
                return Vec::new();
            }
            let may_not_run = run.maybe || run.lenient;
            if may_not_run && before != found.len() {
                found.iter_mut().skip(before).for_each(|table| table.is_whole = false);
            }
            if run.maybe {
                found.iter_mut().filter(|table| table.span == span).for_each(|table| table.is_whole = false);
            }
        }
    }
    found.retain(|table| table.is_whole);
    found
}

/// The statements in the file that a client reads: `-f FILE`, `< FILE`.
fn in_file(view: &TaskView<'_>, run: &Run<'_>, dir: Option<&std::path::Path>) -> Option<String> {
    let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
    let files = words.windows(2).filter(|pair| matches!(pair[0], "-f" | "--file")).map(|pair| pair[1]);
    let joined = words.iter().filter_map(|word| word.strip_prefix("--file="));
    let named: Vec<&str> = files.chain(joined).collect();
    let redirected = || {
        let text = run.content.text.get(run.statement.words().last()?.range.end..run.statement.range.end)?;
        let file = text.trim().strip_prefix('<').filter(|rest| !rest.starts_with('<'))?.trim();
        Some(file.trim_matches(['"', '\''])).filter(|file| !file.contains(['$', ' ', '\n', '>', '\u{1a}']))
    };
    let others = words.iter().any(|word| matches!(*word, "-c" | "--command" | "-e" | "--execute"));
    let file = match named.as_slice() {
        _ if others => None,
        [] => redirected(),
        [file] => Some(*file),
        _ => None,
    };
    let path = resolve(dir?, file.filter(|file| !file.is_empty())?);
    String::from_utf8(view.files.read(&path).ok()?).ok()
}

/// Applies statements to the tables. Returns `None` if their effects are not known.
fn execute(text: &str, span: Span, tables: &mut Vec<Table>) -> Option<()> {
    // Commands of the clients.
    let mut plain = String::new();
    for line in text.lines() {
        match line.trim_start() {
            own if own.starts_with(['.', '\\']) => {
                let reads = [".import", ".read", ".restore", "\\copy", "\\i", "\\g", "\\."];
                if reads.iter().any(|command| own.starts_with(command)) {
                    return None;
                }
            }
            _ => plain.push_str(line),
        }
        plain.push('\n');
    }
    let tokens = tokens(&plain)?;
    for statement in tokens.split(|token| *token == Token::Sign(';')).filter(|statement| !statement.is_empty()) {
        if statement.contains(&Token::Sign('…')) {
            return None;
        }
        let first = statement.iter().find_map(|token| match token {
            Token::Word(word) => Some(word.as_str()),
            _ => None,
        })?;
        match first {
            "create" => create(statement, span, tables)?,
            "drop" => drop(statement, tables),
            "insert" => {
                if insert(statement, span, tables).is_none() {
                    changed(statement, tables);
                }
            }
            "delete"
                if statement.len() == 3
                    || statement.get(3).is_some_and(|token| token.is(".")) && statement.len() == 5 =>
            {
                let (name, _) = name(statement.get(2..)?)?;
                tables.iter_mut().filter(|table| table.name == name).for_each(|table| table.rows.clear());
            }
            "update" | "delete" | "alter" | "truncate" | "replace" => changed(statement, tables),
            "begin" | "commit" | "start" | "end" | "set" | "pragma" | "use" | "grant" | "revoke" | "select"
            | "analyze" | "vacuum" | "comment" | "show" => {}
            _ => return None,
        }
    }
    Some(())
}

/// All tables that a statement names may have any rows.
fn changed(statement: &[Token], tables: &mut [Table]) {
    for table in tables {
        table.is_whole &= !statement.iter().any(|token| token.is(&table.name));
    }
}

fn drop(statement: &[Token], tables: &mut Vec<Table>) {
    // The tables of a dropped schema are gone as well.
    if statement.iter().any(|token| token.is("schema") || token.is("database")) {
        tables.clear();
    }
    if statement.get(1).is_some_and(|token| token.is("table")) {
        tables.retain(|table| !statement.iter().any(|token| token.is(&table.name)));
    }
}

fn create(statement: &[Token], span: Span, tables: &mut Vec<Table>) -> Option<()> {
    const OPAQUE: [&str; 5] = ["trigger", "rule", "function", "procedure", "event"];
    let head = statement.iter().take(5);
    if head.clone().any(|token| OPAQUE.iter().any(|word| token.is(word))) {
        return None;
    }
    let kind = head.take(4).position(|token| token.is("table"));
    let Some(kind) = kind.filter(|at| *at == 1 || !statement.iter().take(*at).any(|t| t.is("view") || t.is("index")))
    else {
        return Some(());
    };
    let exists = ["if", "not", "exists"];
    let behind = statement.get(kind + 1..)?;
    let is_given = behind.iter().zip(exists).filter(|(token, word)| token.is(word)).count() == exists.len();
    let (name, rest) = name(behind.get(if is_given { exists.len() } else { 0 }..)?)?;
    if let Some(known) = tables.iter_mut().find(|table| table.name == name) {
        // The same name in another database.
        known.is_whole &= is_given;
        return Some(());
    }
    const KEYS: [&str; 9] = ["primary", "foreign", "unique", "check", "constraint", "exclude", "like", "key", "index"];
    let parts = in_parentheses(rest).filter(|(_, behind)| !behind.iter().any(|token| token.is("as")));
    let is_whole = parts.is_some();
    let columns = parts.map(|(parts, _)| parts).unwrap_or_default();
    let columns = columns.into_iter().filter_map(|part| match part.first() {
        Some(Token::Word(word)) if !KEYS.contains(&word.as_str()) => Some(word.clone()),
        _ => None,
    });
    tables.push(Table { name, columns: columns.collect(), rows: Vec::new(), is_whole, span });
    Some(())
}

/// Adds the rows of `INSERT INTO TABLE (COLUMNS) VALUES (…), (…)`. Returns `None` for every other form.
fn insert(statement: &[Token], span: Span, tables: &mut [Table]) -> Option<()> {
    let [_, into, rest @ ..] = statement else { return None };
    let (name, rest) = name(rest.get(usize::from(!into.is("into"))..).filter(|_| into.is("into"))?)?;
    let table = tables.iter_mut().find(|table| table.name == name)?;
    let (columns, mut rest) = match in_parentheses(rest) {
        Some((columns, rest)) => {
            let name = |part: &[Token]| match part {
                [Token::Word(word)] => Some(word.clone()),
                _ => None,
            };
            (columns.into_iter().map(name).collect::<Option<Vec<String>>>()?, rest)
        }
        None => (table.columns.clone(), rest),
    };
    if !rest.first()?.is("values") {
        return None;
    }
    let mut rows = Vec::new();
    loop {
        let (cells, behind) = in_parentheses(rest.get(1..)?)?;
        if cells.len() != columns.len() {
            return None;
        }
        let of_column = |column: &String| {
            columns
                .iter()
                .position(|known| known == column)
                .and_then(|at| cells.get(at))
                .map_or(Cell::Unknown, |c| cell(c))
        };
        rows.push(table.columns.iter().map(of_column).collect());
        rest = behind;
        if rest.is_empty() {
            break;
        }
        if *rest.first()? != Token::Sign(',') {
            return None;
        }
    }
    table.rows.extend(rows);
    table.span = span;
    Some(())
}

/// What a query selects.
#[derive(Clone, PartialEq, Debug)]
pub enum Selected {
    Count,
    Sum(String),
    /// The columns, of which expressions are empty.
    Columns(Vec<String>),
}

/// A query of one table.
#[derive(Debug)]
pub struct Query {
    pub selected: Selected,
    pub table: String,
    /// The conditions, all of which must hold: the column, whether the value must be equal, and the value.
    pub conditions: Vec<(String, bool, Cell)>,
    /// The first column of the order, and whether it is descending.
    pub order: Option<(String, bool)>,
}

impl Query {
    /// The query, if it consists of equalities on one table.
    pub fn of(text: &str) -> Option<Self> {
        let tokens = tokens(text.trim().trim_end_matches(';'))?;
        let [select, rest @ ..] = tokens.as_slice() else { return None };
        let from = rest.iter().position(|token| token.is("from")).filter(|_| select.is("select"))?;
        let selected = selected(rest.get(..from)?)?;
        let (table, mut rest) = name(rest.get(from + 1..)?)?;
        let mut conditions = Vec::new();
        if rest.first().is_some_and(|token| token.is("where")) {
            let end = rest.iter().position(|token| token.is("order")).unwrap_or(rest.len());
            for part in rest.get(1..end)?.split(|token| token.is("and")) {
                conditions.push(condition(part)?);
            }
            rest = rest.get(end..)?;
        }
        let order = match rest {
            [] => None,
            [order, by, Token::Word(column), rest @ ..] if order.is("order") && by.is("by") => match rest {
                [] => Some((column.clone(), false)),
                [way] if way.is("asc") || way.is("desc") => Some((column.clone(), way.is("desc"))),
                _ => return None,
            },
            _ => return None,
        };
        Some(Self { selected, table, conditions, order })
    }

    /// The rows that meet the conditions. `None` if this is not known.
    pub fn rows<'t>(&self, table: &'t Table) -> Option<Vec<&'t Vec<Cell>>> {
        let mut found = Vec::new();
        for row in &table.rows {
            let mut all = true;
            for (column, equal, value) in &self.conditions {
                all &= holds(row.get(table.column(column)?)?, *equal, value)?;
            }
            if all {
                found.push(row);
            }
        }
        Some(found)
    }
}

impl Table {
    /// The index of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }
}

fn holds(cell: &Cell, equal: bool, value: &Cell) -> Option<bool> {
    match (cell, value) {
        (Cell::Unknown, _) => None,
        (_, Cell::Null) => Some((*cell == Cell::Null) == equal),
        // A comparison with NULL is never true.
        (Cell::Null, _) => Some(false),
        _ => cell.is(value).map(|is| is == equal),
    }
}

fn selected(tokens: &[Token]) -> Option<Selected> {
    let [Token::Word(function), Token::Sign('('), inner, Token::Sign(')'), rest @ ..] = tokens else {
        if tokens.iter().any(|token| token.is("distinct") || token.is("(")) {
            return None;
        }
        let column = |part: &[Token]| match part {
            [Token::Word(word)] => word.clone(),
            [Token::Word(word), Token::Sign(':'), Token::Sign(':'), Token::Word(_)] => word.clone(),
            _ => String::new(),
        };
        return Some(Selected::Columns(tokens.split(|token| token.is(",")).map(column).collect()));
    };
    // A name or a type of the result.
    let is_plain = match rest {
        [] | [Token::Sign(':'), Token::Sign(':'), Token::Word(_)] => true,
        [as_word, Token::Word(_)] => as_word.is("as"),
        _ => false,
    };
    match (function.as_str(), inner) {
        _ if !is_plain => None,
        ("count", Token::Sign('*')) => Some(Selected::Count),
        ("count", Token::Number(number)) if number == "1" => Some(Selected::Count),
        ("sum", Token::Word(column)) => Some(Selected::Sum(column.clone())),
        _ => None,
    }
}

fn condition(tokens: &[Token]) -> Option<(String, bool, Cell)> {
    let (column, rest) = name(tokens)?;
    let value = |tokens: &[Token]| Some(cell(tokens)).filter(|cell| *cell != Cell::Unknown);
    match rest {
        [is, null] if is.is("is") && null.is("null") => Some((column, true, Cell::Null)),
        [is, not, null] if is.is("is") && not.is("not") && null.is("null") => Some((column, false, Cell::Null)),
        [Token::Sign('='), rest @ ..] => Some((column, true, value(rest)?)),
        [Token::Sign('<'), Token::Sign('>'), rest @ ..] | [Token::Sign('!'), Token::Sign('='), rest @ ..] => {
            Some((column, false, value(rest)?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_inserted_and_selected() {
        let span = Span::new(crate::source::Sources::default().add("a", ""), 0..0);
        let mut tables = Vec::new();
        let text = "CREATE TABLE s.a (id int, name text, PRIMARY KEY (id)); INSERT INTO s.a (name, id) VALUES ('x''y', 1), (NULL, 2);";
        assert!(execute(text, span, &mut tables).is_some());
        assert_eq!(tables[0].rows[0], [Cell::Literal("1".to_owned()), Cell::Literal("x'y".to_owned())]);
        let rows = |query: &str| Query::of(query).and_then(|query| Some(query.rows(&tables[0])?.len()));
        assert_eq!(rows("SELECT count(*) FROM s.a WHERE name IS NULL;"), Some(1));
        assert_eq!(rows("SELECT count(*) FROM a WHERE id <> 1 AND name IS NULL"), Some(1));
        assert_eq!(rows("SELECT count(*) FROM a WHERE id = 1 OR id = 2"), None);
        assert_eq!(rows("SELECT count(*) FROM a JOIN b ON a.id = b.id"), None);
        assert!(execute("INSERT INTO a SELECT * FROM b", span, &mut tables).is_some());
        assert!(!tables[0].is_whole);
    }
}
