//! The tables of a rehearsal: what simple SQL statements create, and what simple queries return.

use std::collections::BTreeMap;

use super::{Done, MOST, Text};

/// Databases by location.
#[derive(Default)]
pub struct Databases {
    all: BTreeMap<String, Database>,
}

#[derive(Default)]
struct Database {
    tables: BTreeMap<String, Table>,
    /// Whether a statement was not understood.
    lost: bool,
}

#[derive(Default)]
struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    lost: bool,
    /// Whether generated numbers may differ from row numbers, because a number was given explicitly or a row was
    /// deleted.
    skips: bool,
    /// Whether rows without `ORDER BY` may be in a different order, because there is an index or rows were updated.
    mixed: bool,
    /// Whether changes of another table may change this one.
    follows: bool,
}

#[derive(Clone, Default)]
struct Column {
    name: String,
    /// Whether the database generates the value if it is omitted.
    counts: bool,
    default: Option<Cell>,
    /// Whether its values are printed as written.
    is_plain: bool,
    is_text: bool,
    /// Whether its values are unique.
    is_key: bool,
}

impl Column {
    /// The value as stored in the column, or `None` if the column may convert it.
    fn takes(&self, cell: Cell) -> Cell {
        cell.filter(|field| match field {
            Field::Null => true,
            Field::Text(_) => self.is_text,
            Field::Number(number) => !self.is_text && (number.fract() == 0.0 || !self.is_plain),
        })
    }
}

/// A value, or `None` if it is not known.
type Cell = Option<Field>;

#[derive(Clone, PartialEq, Debug)]
enum Field {
    Null,
    Text(String),
    Number(f64),
}

impl Databases {
    /// Marks a database as unknown.
    pub fn forget(&mut self, key: &str) {
        self.all.entry(key.to_owned()).or_default().lost = true;
    }

    pub fn forget_all(&mut self) {
        self.all.values_mut().for_each(|base| base.lost = true);
    }

    /// Empties a database that is dropped or created.
    pub fn clear(&mut self, key: &str) {
        self.all.insert(key.to_owned(), Database::default());
    }

    /// Removes all databases at and below a path.
    pub fn clear_below(&mut self, path: &str) {
        self.all.retain(|key, _| !key.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
    }

    /// Runs statements. `between` separates the columns of the output. The status is `None` if the statements may fail.
    pub fn run(&mut self, key: &str, sql: &str, between: &str) -> Done {
        let Some(tokens) = tokens(sql).filter(|_| sql.len() < MOST) else {
            self.forget(key);
            return Done::unknown();
        };
        let base = self.all.entry(key.to_owned()).or_default();
        let mut out = Some(String::new());
        for statement in tokens.split(|token| *token == Token::Sign(";".to_owned())) {
            if statement.is_empty() {
                continue;
            }
            let mut reader = Reader { tokens: statement, at: 0, conditions: 0 };
            match base.statement(&mut reader, between) {
                Some(text) => out = out.zip(text).map(|(out, text)| out + &text),
                None if reader.is("select") => return Done::unknown(),
                None => {
                    // It may not be known which table is affected.
                    base.lost = true;
                    return Done::unknown();
                }
            }
        }
        Done { status: Some(true), out }
    }
}

impl Database {
    /// The output of a statement. Returns `None` if the statement is not understood.
    fn statement(&mut self, r: &mut Reader<'_>, between: &str) -> Option<Text> {
        const QUIET: [&str; 8] = ["begin", "commit", "pragma", "analyze", "vacuum", "set", "grant", "comment"];
        let silent = Some(Some(String::new()));
        if r.is_all(&["create", "index"]) || r.is_all(&["create", "unique"]) {
            self.tables.values_mut().for_each(|table| table.mixed = true);
            return silent;
        }
        if QUIET.iter().any(|word| r.is(word)) {
            return silent;
        }
        if r.takes(&["drop", "table"]) {
            r.takes(&["if", "exists"]);
            let name = r.name()?;
            self.tables.remove(&name);
            return (r.ends() || r.takes(&["cascade"])).then_some(silent)?;
        }
        if r.takes(&["create", "table"]) {
            let again = r.takes(&["if", "not", "exists"]);
            let name = r.name()?;
            let words = |words: &[&str]| {
                r.tokens
                    .iter()
                    .any(|token| matches!(token, Token::Word(w) if words.iter().any(|x| w.eq_ignore_ascii_case(x))))
            };
            let (follows, has_keys) = (words(&["cascade", "restrict"]), words(&["unique", "constraint", "foreign"]));
            let columns = columns(r)?;
            if self.tables.contains_key(&name) {
                return again.then_some(silent)?;
            }
            let mixed = has_keys || columns.iter().any(|column| column.is_key && column.is_text);
            self.tables.insert(name, Table { columns, follows, mixed, ..Table::default() });
            return silent;
        }
        if r.takes(&["insert", "into"]) {
            let name = r.name()?;
            let table = self.tables.get_mut(&name)?;
            if table.insert(r).is_none() {
                table.lost = true;
            }
            return silent;
        }
        if r.takes(&["update"]) {
            let name = r.name()?;
            self.disturb(&name);
            let table = self.tables.get_mut(&name)?;
            if table.update(r).is_none() {
                table.lost = true;
            }
            return silent;
        }
        if r.takes(&["delete", "from"]) {
            let name = r.name()?;
            self.disturb(&name);
            let table = self.tables.get_mut(&name)?;
            if table.delete(r).is_none() {
                table.lost = true;
            }
            return silent;
        }
        if r.is("select") {
            if self.lost {
                return None;
            }
            return self.select(r, between).map(Some);
        }
        None
    }

    /// Marks the tables that depend on a changed table as unknown.
    fn disturb(&mut self, name: &str) {
        self.tables
            .iter_mut()
            .filter(|(own, table)| *own != name && table.follows)
            .for_each(|(_, table)| table.lost = true);
    }

    fn select(&self, r: &mut Reader<'_>, between: &str) -> Option<String> {
        // The caller has checked that this is a `SELECT`.
        let start = r.at;
        let found = self.rows(&mut Reader { tokens: r.tokens, at: start + 1, conditions: 0 });
        let rows = found?;
        let mut text = String::new();
        for row in rows {
            let cells: Option<Vec<String>> = row.into_iter().map(|cell| cell.map(|field| field.shown())).collect();
            text.push_str(&cells?.join(between));
            text.push('\n');
        }
        Some(text)
    }

    fn rows(&self, r: &mut Reader<'_>) -> Option<Vec<Vec<Cell>>> {
        let mut wanted: Vec<Wanted> = Vec::new();
        loop {
            wanted.push(r.wanted()?);
            if !r.sign(",") {
                break;
            }
        }
        if !r.takes(&["from"]) {
            return None;
        }
        let table = self.tables.get(&r.name()?).filter(|table| !table.lost)?;
        let filter = if r.takes(&["where"]) { Some(Condition::read(r)?) } else { None };
        // Columns must exist even if there are no rows.
        let named = wanted.iter().filter_map(|wanted| match wanted {
            Wanted::Column(name) | Wanted::Total(_, Some(name)) => Some(name.as_str()),
            _ => None,
        });
        let mut names: Vec<&str> = named.collect();
        filter.iter().for_each(|filter| filter.columns(&mut names));
        names.into_iter().all(|name| table.column(name).is_some()).then_some(())?;
        let mut rows: Vec<&Vec<Cell>> = Vec::new();
        for row in &table.rows {
            let holds = match &filter {
                Some(filter) => filter.holds(table, row)?,
                None => true,
            };
            if holds {
                rows.push(row);
            }
        }
        let is_total = |wanted: &Wanted| matches!(wanted, Wanted::Total(..));
        if r.takes(&["order", "by"]) {
            let column = table.column(&r.name()?)?;
            let down = r.takes(&["desc"]);
            r.takes(&["asc"]);
            let mut cells = rows.iter().map(|row| &row[column]);
            let first = cells.next().cloned().flatten();
            // Equal values have no defined order, and the order of NULL depends on the database.
            if !rows.is_empty() && !cells.all(|cell| compare(&first, cell).is_some()) {
                return None;
            }
            let is_equal =
                |a: &&Vec<Cell>, b: &&Vec<Cell>| compare(&a[column], &b[column]).is_none_or(std::cmp::Ordering::is_eq);
            if rows.iter().enumerate().any(|(nth, a)| rows[nth + 1..].iter().any(|b| is_equal(a, b))) {
                return None;
            }
            rows.sort_by(|a, b| compare(&a[column], &b[column]).unwrap_or(std::cmp::Ordering::Equal));
            if down {
                rows.reverse();
            }
        } else if table.mixed && rows.len() > 1 && !wanted.iter().all(is_total) {
            return None;
        }
        if r.takes(&["limit"]) {
            let Some(Field::Number(most)) = r.value()? else { return None };
            rows.truncate(most as usize);
        }
        if !r.ends() {
            return None;
        }
        if wanted.iter().all(is_total) {
            return Some(vec![wanted.iter().map(|one| table.total(one, &rows)).collect::<Option<Vec<_>>>()?]);
        }
        if wanted.iter().any(is_total) {
            return None;
        }
        rows.into_iter()
            .map(|row| {
                let mut cells = Vec::new();
                for one in &wanted {
                    match one {
                        Wanted::All => {
                            if !table.columns.iter().all(|column| column.is_plain) {
                                return None;
                            }
                            cells.extend(row.iter().cloned());
                        }
                        Wanted::Column(name) => {
                            let at = table.column(name)?;
                            cells.push(row.get(at)?.clone().filter(|_| table.columns[at].is_plain));
                        }
                        Wanted::Value(value) => cells.push(value.clone()),
                        Wanted::Total(..) => return None,
                    }
                }
                Some(cells)
            })
            .collect()
    }
}

impl Table {
    fn column(&self, name: &str) -> Option<usize> {
        let name = name.rsplit('.').next().unwrap_or(name);
        self.columns.iter().position(|column| column.name == name)
    }

    fn insert(&mut self, r: &mut Reader<'_>) -> Option<()> {
        let mut places: Vec<usize> = (0..self.columns.len()).collect();
        if r.sign("(") {
            places.clear();
            loop {
                places.push(self.column(&r.name()?)?);
                if !r.sign(",") {
                    break;
                }
            }
            r.sign(")").then_some(())?;
        }
        r.takes(&["values"]).then_some(())?;
        loop {
            r.sign("(").then_some(())?;
            let next = Some(Field::Number(self.rows.len() as f64 + 1.0)).filter(|_| !self.skips);
            let mut row: Vec<Cell> = self
                .columns
                .iter()
                .map(|column| match (&column.default, column.counts) {
                    (Some(default), _) => column.takes(default.clone()),
                    (None, true) => next.clone(),
                    _ => Some(Field::Null),
                })
                .collect();
            for (nth, place) in places.iter().enumerate() {
                if nth > 0 {
                    r.sign(",").then_some(())?;
                }
                row[*place] = self.columns[*place].takes(r.expression()?);
                self.skips |= self.columns[*place].counts;
            }
            r.sign(")").then_some(())?;
            // A duplicate key makes the whole statement fail.
            let is_double = |(at, column): (usize, &Column)| {
                column.is_key
                    && row[at] != Some(Field::Null)
                    && self.rows.iter().any(|other| other[at].is_none() || other[at] == row[at])
            };
            if self.rows.len() >= ROWS || self.columns.iter().enumerate().any(is_double) {
                return None;
            }
            self.rows.push(row);
            if !r.sign(",") {
                break;
            }
        }
        r.ends().then_some(())
    }

    fn update(&mut self, r: &mut Reader<'_>) -> Option<()> {
        r.takes(&["set"]).then_some(())?;
        let mut sets = Vec::new();
        loop {
            let column = self.column(&r.name()?)?;
            r.sign("=").then_some(())?;
            // The effect on rows with the same value is not known.
            (!self.columns[column].is_key).then_some(())?;
            sets.push((column, self.columns[column].takes(r.value()?)));
            if !r.sign(",") {
                break;
            }
        }
        let filter = if r.takes(&["where"]) { Some(Condition::read(r)?) } else { None };
        r.ends().then_some(())?;
        self.mixed = true;
        for at in 0..self.rows.len() {
            let holds = match &filter {
                Some(filter) => filter.holds(self, &self.rows[at])?,
                None => true,
            };
            if holds {
                sets.iter().for_each(|(column, value)| self.rows[at][*column] = value.clone());
            }
        }
        Some(())
    }

    fn delete(&mut self, r: &mut Reader<'_>) -> Option<()> {
        let filter = if r.takes(&["where"]) { Some(Condition::read(r)?) } else { None };
        r.ends().then_some(())?;
        self.skips = true;
        let mut kept = Vec::new();
        for row in &self.rows {
            let holds = match &filter {
                Some(filter) => filter.holds(self, row)?,
                None => true,
            };
            if !holds {
                kept.push(row.clone());
            }
        }
        self.rows = kept;
        Some(())
    }

    fn total(&self, wanted: &Wanted, rows: &[&Vec<Cell>]) -> Option<Cell> {
        let Wanted::Total(function, column) = wanted else { return None };
        let Some(name) = column else {
            return (function == "count").then_some(Some(Field::Number(rows.len() as f64)));
        };
        let at = self.column(name)?;
        let cells: Vec<&Field> = rows.iter().map(|row| row.get(at)?.as_ref()).collect::<Option<_>>()?;
        let cells: Vec<&Field> = cells.into_iter().filter(|cell| **cell != Field::Null).collect();
        let numbers = || -> Option<Vec<f64>> {
            cells.iter().map(|cell| if let Field::Number(n) = cell { Some(*n) } else { None }).collect()
        };
        let number = match function.as_str() {
            "count" => cells.len() as f64,
            // The format of a fractional sum depends on the database.
            "sum" if !cells.is_empty() => Some(numbers()?.iter().sum::<f64>()).filter(|sum| sum.fract() == 0.0)?,
            "max" => numbers()?.into_iter().reduce(f64::max)?,
            "min" => numbers()?.into_iter().reduce(f64::min)?,
            _ => return None,
        };
        (self.columns[at].is_plain || function == "count").then_some(Some(Field::Number(number)))
    }
}

impl Field {
    fn shown(&self) -> String {
        match self {
            Self::Null => String::new(),
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
        }
    }
}

fn compare(a: &Cell, b: &Cell) -> Option<std::cmp::Ordering> {
    match (a.as_ref()?, b.as_ref()?) {
        (Field::Number(a), Field::Number(b)) => a.partial_cmp(b),
        // The order of texts depends on the collation, except for simple ones.
        (Field::Text(a), Field::Text(b)) => {
            let plain = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
            (a == b || plain(a) && plain(b)).then(|| a.cmp(b))
        }
        _ => None,
    }
}

/// One item of a `SELECT` list.
enum Wanted {
    All,
    Column(String),
    Value(Cell),
    /// `count(*)`, `sum(column)`.
    Total(String, Option<String>),
}

enum Condition {
    Compares(Operand, String, Operand),
    IsNull(Operand, bool),
    In(Operand, Vec<Cell>, bool),
    And(Box<[Condition; 2]>),
    Or(Box<[Condition; 2]>),
    Not(Box<Condition>),
}

enum Operand {
    Column(String),
    Value(Cell),
}

impl Operand {
    fn of(&self, table: &Table, row: &[Cell]) -> Cell {
        match self {
            Self::Column(name) => row.get(table.column(name)?)?.clone(),
            Self::Value(cell) => cell.clone(),
        }
    }
}

impl Condition {
    fn read(r: &mut Reader<'_>) -> Option<Self> {
        let mut left = Self::all(r)?;
        while r.takes(&["or"]) {
            left = Self::Or(Box::new([left, Self::all(r)?]));
        }
        Some(left)
    }

    fn all(r: &mut Reader<'_>) -> Option<Self> {
        let mut left = Self::one(r)?;
        while r.takes(&["and"]) {
            left = Self::And(Box::new([left, Self::one(r)?]));
        }
        Some(left)
    }

    fn one(r: &mut Reader<'_>) -> Option<Self> {
        r.conditions += 1;
        if r.conditions > CONDITIONS {
            return None;
        }
        if r.takes(&["not"]) {
            return Some(Self::Not(Box::new(Self::one(r)?)));
        }
        if r.sign("(") {
            let inner = Self::read(r)?;
            return r.sign(")").then_some(inner);
        }
        let left = r.operand()?;
        if r.takes(&["is"]) {
            let not = r.takes(&["not"]);
            return r.takes(&["null"]).then_some(Self::IsNull(left, !not));
        }
        let not = r.takes(&["not"]);
        if r.takes(&["in"]) {
            r.sign("(").then_some(())?;
            let mut values = Vec::new();
            loop {
                values.push(r.value()?);
                if !r.sign(",") {
                    break;
                }
            }
            return r.sign(")").then_some(Self::In(left, values, !not));
        }
        if not {
            return None;
        }
        let operator = ["=", "==", "!=", "<>", "<=", ">=", "<", ">"].into_iter().find(|sign| r.sign(sign))?;
        Some(Self::Compares(left, operator.to_owned(), r.operand()?))
    }

    /// The columns that it refers to.
    fn columns<'c>(&'c self, found: &mut Vec<&'c str>) {
        let mut add = |operand: &'c Operand| {
            if let Operand::Column(name) = operand {
                found.push(name);
            }
        };
        match self {
            Self::Compares(a, _, b) => [a, b].into_iter().for_each(add),
            Self::IsNull(operand, _) | Self::In(operand, ..) => add(operand),
            Self::And(pair) | Self::Or(pair) => pair.iter().for_each(|inner| inner.columns(found)),
            Self::Not(inner) => inner.columns(found),
        }
    }

    /// Whether the condition is true for a row. Returns `None` if that is not known. A comparison with NULL is not
    /// true.
    fn holds(&self, table: &Table, row: &[Cell]) -> Option<bool> {
        match self {
            Self::And(pair) => match (pair[0].holds(table, row), pair[1].holds(table, row)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Self::Or(pair) => match (pair[0].holds(table, row), pair[1].holds(table, row)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            // `NOT` of a comparison with NULL is NULL.
            Self::Not(inner) => (!row.contains(&Some(Field::Null))).then_some(!inner.holds(table, row)?),
            Self::IsNull(operand, wanted) => Some((operand.of(table, row)? == Field::Null) == *wanted),
            Self::In(operand, values, wanted) => {
                let value = operand.of(table, row)?;
                let known: Option<Vec<Field>> = values.iter().cloned().collect();
                let kinds = known.as_ref()?.iter().all(|v| std::mem::discriminant(v) == std::mem::discriminant(&value));
                match value {
                    Field::Null => Some(false),
                    _ if !kinds => None,
                    _ => Some(known?.contains(&value) == *wanted),
                }
            }
            Self::Compares(a, operator, b) => {
                let (a, b) = (a.of(table, row), b.of(table, row));
                if a == Some(Field::Null) || b == Some(Field::Null) {
                    return Some(false);
                }
                if let (Some(Field::Text(a)), Some(Field::Text(b)), "=" | "==" | "!=" | "<>") =
                    (&a, &b, operator.as_str())
                {
                    return Some((a == b) == operator.starts_with('='));
                }
                let order = compare(&a, &b)?;
                Some(match operator.as_str() {
                    "=" | "==" => order.is_eq(),
                    "!=" | "<>" => order.is_ne(),
                    "<=" => order.is_le(),
                    ">=" => order.is_ge(),
                    "<" => order.is_lt(),
                    _ => order.is_gt(),
                })
            }
        }
    }
}

/// Reads the columns of `CREATE TABLE`.
fn columns(r: &mut Reader<'_>) -> Option<Vec<Column>> {
    const RULES: [&str; 6] = ["primary", "foreign", "unique", "check", "constraint", "exclude"];
    r.sign("(").then_some(())?;
    let mut columns: Vec<Column> = Vec::new();
    loop {
        let is_rule = RULES.iter().any(|word| r.is(word));
        let mut column = Column { name: if is_rule { String::new() } else { r.name()? }, ..Column::default() };
        let mut words: Vec<String> = Vec::new();
        let mut depth = 0_usize;
        loop {
            match r.tokens.get(r.at)? {
                Token::Sign(sign) if sign == ")" && depth == 0 => break,
                Token::Sign(sign) if sign == "," && depth == 0 => break,
                Token::Sign(sign) if sign == "(" => depth += 1,
                Token::Sign(sign) if sign == ")" => depth -= 1,
                Token::Word(word) if depth == 0 => {
                    words.push(word.to_lowercase());
                    if words.last().is_some_and(|word| word == "default") {
                        r.at += 1;
                        column.default = Some(r.expression()?);
                        words.pop();
                        continue;
                    }
                }
                _ => {}
            }
            r.at += 1;
        }
        let is = |word: &str| words.iter().any(|known| known == word);
        column.counts = is("serial")
            || is("bigserial")
            || is("autoincrement")
            || is("auto_increment")
            || is("identity")
            || is("integer") && is("primary");
        column.is_key = is("primary") || is("unique");
        // The format of fractional numbers, booleans, times and columns without a type depends on the database.
        let first = words.first().map_or("", String::as_str);
        column.is_text = matches!(first, "text" | "varchar") || first == "character" && is("varying");
        column.is_plain = column.is_text
            || matches!(first, "int" | "integer" | "bigint" | "smallint" | "serial" | "bigserial" | "int4" | "int8");
        if !is_rule {
            columns.push(column);
        }
        if r.sign(")") {
            break;
        }
        r.sign(",").then_some(())?;
    }
    Some(columns)
}

#[derive(Clone, PartialEq, Debug)]
enum Token {
    Word(String),
    Quoted(String),
    Text(String),
    Number(f64),
    Sign(String),
}

/// Splits SQL into tokens. Returns `None` if it contains something that is not understood.
fn tokens(sql: &str) -> Option<Vec<Token>> {
    let mut found = Vec::new();
    let mut rest = sql.trim_start();
    while let Some(c) = rest.chars().next() {
        let len = match c {
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '\'' => {
                let mut text = String::new();
                let mut at = 1;
                loop {
                    let end = at + rest[at..].find('\'')?;
                    text.push_str(&rest[at..end]);
                    at = end + 1;
                    if !rest[at..].starts_with('\'') {
                        break;
                    }
                    text.push('\'');
                    at += 1;
                }
                found.push(Token::Text(text));
                at
            }
            '"' | '`' => {
                let end = 1 + rest[1..].find(c)?;
                found.push(Token::Quoted(rest[1..end].to_owned()));
                end + 1
            }
            c if c.is_ascii_alphabetic() || c == '_' => {
                let end =
                    rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))).unwrap_or(rest.len());
                found.push(Token::Word(rest[..end].to_owned()));
                end
            }
            c if c.is_ascii_digit() || c == '-' && rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                let end = rest[1..].find(|c: char| !(c.is_ascii_digit() || c == '.')).map_or(rest.len(), |end| end + 1);
                // Larger numbers cannot be represented exactly.
                let number: f64 = rest[..end].parse().ok()?;
                (number.abs() < 9e15).then_some(())?;
                found.push(Token::Number(number));
                end
            }
            _ => {
                let two = ["<=", ">=", "!=", "<>", "=="].into_iter().find(|sign| rest.starts_with(sign));
                let sign = two.unwrap_or(&rest[..c.len_utf8()]);
                if !"();,=<>*!".contains(c) {
                    return None;
                }
                found.push(Token::Sign(sign.to_owned()));
                sign.len()
            }
        };
        rest = rest[len..].trim_start();
    }
    Some(found)
}

struct Reader<'t> {
    tokens: &'t [Token],
    at: usize,
    /// The number of conditions read so far.
    conditions: usize,
}

/// The maximum number of rows. Larger tables are not followed.
const ROWS: usize = 500;

/// The maximum number of conditions in a statement.
const CONDITIONS: usize = 100;

impl Reader<'_> {
    fn is_at(&self, at: usize, word: &str) -> bool {
        matches!(self.tokens.get(at), Some(Token::Word(known)) if known.eq_ignore_ascii_case(word))
    }

    fn is(&self, word: &str) -> bool {
        self.is_at(self.at, word)
    }

    fn is_all(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(nth, word)| self.is_at(self.at + nth, word))
    }

    fn takes(&mut self, words: &[&str]) -> bool {
        let all = self.is_all(words);
        if all {
            self.at += words.len();
        }
        all
    }

    fn sign(&mut self, sign: &str) -> bool {
        let is = matches!(self.tokens.get(self.at), Some(Token::Sign(known)) if known == sign);
        if is {
            self.at += 1;
        }
        is
    }

    fn ends(&self) -> bool {
        self.at >= self.tokens.len()
    }

    fn name(&mut self) -> Option<String> {
        let name = match self.tokens.get(self.at)? {
            Token::Word(word) => word.to_lowercase(),
            Token::Quoted(name) => name.clone(),
            _ => return None,
        };
        self.at += 1;
        Some(name)
    }

    /// Reads a literal value.
    fn value(&mut self) -> Option<Cell> {
        let cell = match self.tokens.get(self.at)? {
            Token::Text(text) => Some(Field::Text(text.clone())),
            Token::Number(number) => Some(Field::Number(*number)),
            Token::Word(word) if word.eq_ignore_ascii_case("null") => Some(Field::Null),
            Token::Word(word) if word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("false") => None,
            _ => return None,
        };
        self.at += 1;
        Some(cell)
    }

    /// Reads a literal value, or a function call, whose result is unknown.
    fn expression(&mut self) -> Option<Cell> {
        if let Some(cell) = self.value() {
            return Some(cell);
        }
        self.name()?;
        if self.sign("(") {
            let mut depth = 1;
            while depth > 0 {
                match self.tokens.get(self.at)? {
                    Token::Sign(sign) if sign == "(" => depth += 1,
                    Token::Sign(sign) if sign == ")" => depth -= 1,
                    _ => {}
                }
                self.at += 1;
            }
        }
        Some(None)
    }

    fn operand(&mut self) -> Option<Operand> {
        match self.tokens.get(self.at)? {
            Token::Word(word) if !["null", "true", "false"].iter().any(|known| word.eq_ignore_ascii_case(known)) => {
                let name = self.name()?;
                (!self.sign("(")).then_some(Operand::Column(name))
            }
            Token::Quoted(_) => self.name().map(Operand::Column),
            _ => self.value().map(Operand::Value),
        }
    }

    fn wanted(&mut self) -> Option<Wanted> {
        if self.sign("*") {
            return Some(Wanted::All);
        }
        let Some(name) = self.name() else { return self.value().map(Wanted::Value) };
        if !self.sign("(") {
            return Some(Wanted::Column(name));
        }
        let column = if self.sign("*") { None } else { Some(self.name()?) };
        self.sign(")").then_some(Wanted::Total(name, column))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_find_what_statements_have_made() {
        let mut all = Databases::default();
        let made = all.run(
            "a",
            "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL, state TEXT DEFAULT 'open');
             INSERT INTO t (name, price) VALUES ('a', 1.5), ('it''s', 2);
             UPDATE t SET state = 'shut' WHERE name = 'a'; -- one",
            "|",
        );
        assert_eq!(made.status, Some(true));
        let mut ask = |sql: &str| all.run("a", sql, "|").out;
        assert_eq!(ask("SELECT count(*) FROM t").as_deref(), Some("2\n"));
        assert_eq!(ask("SELECT id, name FROM t WHERE state <> 'shut'").as_deref(), Some("2|it's\n"));
        assert_eq!(ask("select name from t where price > 1 and (id = 1 or id = 7)").as_deref(), Some("a\n"));
        assert_eq!(ask("SELECT max(id) FROM t").as_deref(), Some("2\n"));
        for unknown in [
            "SELECT price FROM t",
            "SELECT count(*) FROM u",
            "SELECT a.id FROM t a JOIN u",
            "SELECT lower(name) FROM t",
        ] {
            assert_eq!(ask(unknown), None, "{unknown}");
        }
        assert_eq!(ask("INSERT INTO t SELECT 1"), Some(String::new()));
        assert_eq!(ask("SELECT count(*) FROM t"), None);
    }
}
