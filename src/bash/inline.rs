//! Inlines functions that consist of one command: a substitution that calls such a function becomes a substitution of the
//! command. Inlines the options that a variable contains as well: `N="-n shop"`, used as `kubectl get pod web $N`.

use std::collections::{HashMap, HashSet};

use super::{
    ast::{self, Assign, Kind, List, Part, Redirect, Simple, Stmt, Word},
    escaped, is_safe, parse,
};

/// The maximum depth of functions that call other functions.
const DEPTH: usize = 4;

/// The statements of a script, with `$(f 'x')` rewritten as `$(command "x")` if `f` is defined exactly once and is this one command
/// with `$1`. Ranges still refer to the original script, and everything that is not understood stays unchanged.
pub fn inlined(list: &[Stmt], script: &str) -> List {
    let mut copy = list.to_vec();
    Functions::of(list, script).inline(&mut copy);
    copy
}

/// The functions of a script that can be inlined, and its options.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    bodies: HashMap<String, Body>,
    /// Variables whose value is several plain words, the first of which is an option.
    options: HashMap<String, String>,
    /// Variables whose value is always one plain word: `for verb in get list`, `NS=shop`.
    plain: HashSet<String>,
}

impl Functions {
    pub fn of(list: &[Stmt], script: &str) -> Self {
        let mut functions: HashMap<&str, Option<Body>> = HashMap::new();
        for stmt in list {
            if let Kind::Function { name, body } = &stmt.kind {
                let body = answer(body, script);
                functions.entry(name).and_modify(|known| *known = None).or_insert(body);
            }
        }
        let bodies: HashMap<_, _> =
            functions.into_iter().filter_map(|(name, body)| Some((name.to_owned(), body?))).collect();
        let plain = if bodies.is_empty() { HashSet::new() } else { plain(list) };
        Self { bodies, options: options(list), plain }
    }

    /// The same, without functions of these names.
    pub fn without(mut self, names: &HashSet<String>) -> Self {
        self.bodies.retain(|name, _| !names.contains(name));
        self
    }

    pub fn is_empty(&self) -> bool {
        self.bodies.is_empty() && self.options.is_empty()
    }

    /// Adds the functions of another file. Its options are not those of other files.
    pub fn extend(&mut self, other: Self) {
        self.bodies.extend(other.bodies);
    }

    /// Inlines the functions and the options in statements of the same shell.
    pub fn inline(&self, list: &mut [Stmt]) {
        if !self.is_empty() {
            list.iter_mut().for_each(|stmt| statement(stmt, self));
        }
    }
}

/// The variables that are set once, outside of any other statement, to words such as `-n shop`.
fn options(list: &[Stmt]) -> HashMap<String, String> {
    fn count<'s>(stmt: &'s Stmt, found: &mut HashMap<&'s str, usize>) {
        match &stmt.kind {
            Kind::Assign(assigns) => assigns.iter().for_each(|a| *found.entry(&a.name).or_default() += 1),
            Kind::For { var, .. } | Kind::Count { var, .. } => *found.entry(var).or_default() += 2,
            _ => {}
        }
        stmt.lists().into_iter().flatten().for_each(|stmt| count(stmt, found));
    }
    let assigned = list.iter().filter_map(|stmt| if let Kind::Assign(all) = &stmt.kind { Some(all) } else { None });
    let several = |text: &String| text.starts_with('-') && text.contains(' ') && text.split(' ').all(is_safe);
    let value = |assign: &Assign| assign.value.as_ref().filter(|_| !assign.odd && !assign.export)?.literal();
    let mut found: HashMap<&str, String> =
        assigned.flatten().filter_map(|assign| Some((assign.name.as_str(), value(assign).filter(several)?))).collect();
    if !found.is_empty() {
        let mut counts = HashMap::new();
        list.iter().for_each(|stmt| count(stmt, &mut counts));
        found.retain(|name, _| counts.get(name) == Some(&1));
    }
    found.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The variables that only loops over plain words and assignments of plain words at the top level set. None if another file or a
/// computed command may set variables.
fn plain(list: &[Stmt]) -> HashSet<String> {
    fn look(stmt: &Stmt, top: bool, found: &mut HashMap<String, bool>) {
        let is_plain = |word: &Word| word.literal().is_some_and(|text| is_safe(&text));
        let mut set = |name: &str, plain: bool| *found.entry(name.to_owned()).or_insert(true) &= plain;
        match &stmt.kind {
            Kind::Assign(assigns) => assigns.iter().for_each(|assign| {
                set(&assign.name, top && !assign.odd && !assign.local && assign.value.as_ref().is_some_and(is_plain));
            }),
            Kind::For { var, values, .. } => set(var, values.iter().all(is_plain)),
            Kind::Count { var, .. } => set(var, false),
            // `read name`, `printf -v name`, `unset name`
            Kind::Simple(simple)
                if matches!(simple.words.first().map(|w| w.source.as_str()), Some("source" | "." | "eval")) =>
            {
                found.insert("IFS".to_owned(), false);
            }
            Kind::Simple(simple) => simple.words.iter().skip(1).for_each(|word| {
                if ast::is_name(&word.source) && found.contains_key(&word.source) {
                    found.insert(word.source.clone(), false);
                }
            }),
            Kind::Other(text) => found.iter_mut().for_each(|(name, plain)| *plain &= !text.contains(name.as_str())),
            _ => {}
        }
        stmt.lists().into_iter().flatten().for_each(|stmt| look(stmt, false, found));
    }
    let mut found = HashMap::new();
    // A second time, because a later statement may set what an earlier one has named.
    for _ in 0..2 {
        list.iter().for_each(|stmt| look(stmt, true, &mut found));
    }
    // It decides what a word is.
    if found.contains_key("IFS") {
        return HashSet::new();
    }
    found.into_iter().filter_map(|(name, plain)| plain.then_some(name)).collect()
}

/// The text with the options in place of each variable that stands as a word of its own, outside of quotes.
fn with_options(text: &str, options: &HashMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let len = match c {
            '\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            '\'' => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
            '"' => ast::closing_quote(rest).map_or(rest.len(), |end| end + 1),
            '$' if out.is_empty() || out.ends_with(char::is_whitespace) => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                if let Some(value) = option(&rest[..end], options) {
                    out += value;
                    rest = &rest[end..];
                    continue;
                }
                1
            }
            _ => c.len_utf8(),
        };
        out += &rest[..len];
        rest = &rest[len..];
    }
    out
}

/// The options in `$NAME` or `${NAME}`.
fn option<'o>(word: &str, options: &'o HashMap<String, String>) -> Option<&'o String> {
    let name = word.strip_prefix('$')?;
    options.get(name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name))
}

/// The one command of a function.
#[derive(Clone, Debug)]
struct Body {
    /// The text as written.
    text: String,
    /// Local variables that only name an argument, with its position from 1: `local name="$1"`.
    names: HashMap<String, usize>,
}

fn answer(body: &[Stmt], script: &str) -> Option<Body> {
    let (last, before) = body.split_last()?;
    let is_command = |stmt: &Stmt| matches!(&stmt.kind, Kind::Simple(_) | Kind::Pipeline(_)) && !stmt.background;
    let one = match &last.kind {
        Kind::Or(pair) => pair.iter().all(is_command),
        _ => is_command(last),
    };
    let text = script.get(last.range.clone())?.trim_end().trim_end_matches(';').to_owned();
    (one && !text.contains("<<")).then_some(())?;
    let mut names = HashMap::new();
    for stmt in before {
        let Kind::Assign(assigns) = &stmt.kind else { return None };
        for assign in assigns {
            let at = assign.value.as_ref()?.variable()?.parse::<usize>().ok().filter(|at| *at > 0)?;
            (assign.local && !assign.odd).then_some(())?;
            names.insert(assign.name.clone(), at);
        }
    }
    Some(Body { text, names })
}

fn statement(stmt: &mut Stmt, functions: &Functions) {
    let each = |list: &mut List| list.iter_mut().for_each(|stmt| statement(stmt, functions));
    match &mut stmt.kind {
        Kind::Simple(simple) => command(simple, functions),
        Kind::Assign(assigns) => assigns.iter_mut().for_each(|assign| assigned(assign, functions)),
        Kind::Test(inner, _) => {
            if let Some(new) = rewritten(inner, functions) {
                *inner = new;
            }
        }
        Kind::Pipeline(list) | Kind::Group(list) | Kind::Subshell(list) => each(list),
        Kind::And(pair) | Kind::Or(pair) => pair.iter_mut().for_each(|stmt| statement(stmt, functions)),
        Kind::Not(inner) => statement(inner, functions),
        Kind::If { branches, otherwise } => {
            branches.iter_mut().flat_map(|(condition, body)| [condition, body]).chain(otherwise).for_each(each);
        }
        Kind::For { values, body, .. } => {
            values.iter_mut().for_each(|value| word(value, functions));
            each(body);
        }
        Kind::Count { body, .. } | Kind::Function { body, .. } | Kind::Logged { body, .. } => each(body),
        Kind::While { condition, body, .. } => [condition, body].into_iter().for_each(each),
        Kind::Step(_) | Kind::Other(_) => {}
    }
}

fn command(simple: &mut Simple, functions: &Functions) {
    simple.env.iter_mut().for_each(|assign| assigned(assign, functions));
    if simple.words.iter().any(|word| option(&word.source, &functions.options).is_some()) {
        let words = simple.words.iter().flat_map(|word| match option(&word.source, &functions.options) {
            Some(value) => {
                value.split(' ').map(|part| Word { range: word.range.clone(), ..Word::read(part, 0) }).collect()
            }
            None => vec![word.clone()],
        });
        simple.words = words.collect();
    }
    simple.words.iter_mut().for_each(|value| word(value, functions));
    for redirect in &mut simple.redirects {
        if let Redirect::Herestring(value) = redirect {
            word(value, functions);
        }
    }
}

fn assigned(assign: &mut Assign, functions: &Functions) {
    assign.value.iter_mut().for_each(|value| word(value, functions));
    assign.array.iter_mut().flatten().for_each(|value| word(value, functions));
}

fn word(word: &mut Word, functions: &Functions) {
    if word.parts.iter().any(|part| matches!(part, Part::Command { .. }))
        && let Some(source) = rewritten(&word.source, functions)
    {
        *word = Word { range: word.range.clone(), ..Word::read(&source, 0) };
    }
}

/// A text in which calls in substitutions are inlined. Returns `None` if nothing changes.
fn rewritten(text: &str, functions: &Functions) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    let mut quoted = false;
    while let Some(c) = rest.chars().next() {
        let len = match c {
            '\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            '\'' if !quoted => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
            '"' => {
                quoted = !quoted;
                1
            }
            '$' if rest.starts_with("$(") && !rest.starts_with("$((") => {
                let end = ast::closing(&rest[1..], b'(', b')')?;
                let inner = asked(&rest[2..=end], functions, DEPTH);
                out += "$(";
                out += &with_options(inner.as_deref().unwrap_or(&rest[2..=end]), &functions.options);
                out.push(')');
                rest = &rest[end + 2..];
                continue;
            }
            _ => c.len_utf8(),
        };
        out += &rest[..len];
        rest = &rest[len..];
    }
    (out != text).then_some(out)
}

/// The content of a substitution, in which each call of a function is replaced with its command.
fn asked(text: &str, functions: &Functions, depth: usize) -> Option<String> {
    let list = ast::read(&parse(text)?)?;
    let [stmt] = list.as_slice() else { return None };
    let mut calls: Vec<(std::ops::Range<usize>, String)> = Vec::new();
    let alone = matches!(stmt.kind, Kind::Simple(_));
    let mut visit = vec![stmt];
    while let Some(stmt) = visit.pop() {
        match &stmt.kind {
            Kind::Simple(simple) => {
                let Some(body) = simple.words.first().and_then(|name| functions.bodies.get(name.source.as_str()))
                else {
                    continue;
                };
                let quiet = match simple.redirects.as_slice() {
                    [] => "",
                    [Redirect::Discard(2)] if !body.text.contains(['|', ';', '&']) => " 2>/dev/null",
                    _ => return None,
                };
                // Next to other commands, only a single command can be inlined: a `||` would change the status
                // elsewhere.
                (simple.env.is_empty() && (alone || !body.text.contains("||"))).then_some(())?;
                let called = filled(body, &simple.words[1..], &functions.plain)? + quiet;
                calls.push((stmt.range.clone(), called));
            }
            Kind::Pipeline(list) => visit.extend(list),
            Kind::And(pair) | Kind::Or(pair) => visit.extend(pair.iter()),
            _ => {}
        }
    }
    (!calls.is_empty()).then_some(())?;
    calls.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    let mut out = text.to_owned();
    for (range, called) in calls {
        out.get(range.clone())?;
        out.replace_range(range, &called);
    }
    let deeper = depth.checked_sub(1).and_then(|depth| asked(&out, functions, depth));
    Some(deeper.unwrap_or(out))
}

/// A body with the arguments filled in, each quoted as its place requires. Returns `None` if the body uses its
/// arguments in other ways.
fn filled(body: &Body, arguments: &[Word], plain: &HashSet<String>) -> Option<String> {
    let mut out = String::new();
    let mut rest = body.text.as_str();
    let mut quoted = false;
    while let Some(c) = rest.chars().next() {
        let len = match c {
            '\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            '\'' if !quoted => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
            '"' if rest.starts_with("\"$@\"") && !quoted => {
                let sources: Vec<&str> = arguments.iter().map(|word| word.source.as_str()).collect();
                out += &sources.join(" ");
                rest = &rest[4..];
                continue;
            }
            '"' => {
                quoted = !quoted;
                1
            }
            '`' => return None,
            '$' => {
                let letters = |text: &str| text.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
                let (inner, len) = match rest[1..].strip_prefix('{') {
                    Some(inner) => inner.split_once('}').map(|(inner, _)| (inner, inner.len() + 3))?,
                    None if rest[1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') => {
                        let len = letters(&rest[1..]);
                        (&rest[1..=len], len + 1)
                    }
                    None => (rest.get(1..2).unwrap_or_default(), 2),
                };
                let own = inner.starts_with(|c: char| c.is_ascii_digit() || "@*#?!-$(".contains(c));
                // `${name:-x}` uses an argument in another way.
                let own = own || inner.len() > letters(inner) && body.names.contains_key(&inner[..letters(inner)]);
                let at = body.names.get(inner).copied().or_else(|| inner.parse().ok());
                match at.and_then(|at| at.checked_sub(1)) {
                    Some(at) => {
                        out += &argument(arguments.get(at)?, quoted, plain)?;
                        rest = &rest[len..];
                        continue;
                    }
                    None if own => return None,
                    None => 1,
                }
            }
            _ => c.len_utf8(),
        };
        out += &rest[..len];
        rest = &rest[len..];
    }
    Some(out)
}

/// An argument in place of `$1`: a text, `"$P"`, or `deploy/$name` if the variable is one plain word.
fn argument(word: &Word, quoted: bool, plain: &HashSet<String>) -> Option<String> {
    if let Some(text) = word.literal() {
        return match quoted {
            true => Some(escaped(&text)),
            // Without quotes it would be split and treated as a pattern.
            false => is_safe(&text).then_some(text),
        };
    }
    let part = |part: &Part| match part {
        Part::Text { text, .. } => is_safe(text).then(|| text.clone()),
        Part::Var { name, default: None, quoted } => (*quoted || plain.contains(name)).then(|| format!("${{{name}}}")),
        _ => None,
    };
    word.parts.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_a_single_command_is_inlined() {
        let one = |script: &str| {
            let list = inlined(&ast::read(&parse(script).unwrap()).unwrap(), script);
            match &list.last().unwrap().kind {
                Kind::Assign(assigns) => assigns[0].value.as_ref().unwrap().source.clone(),
                Kind::Test(inner, _) => inner.clone(),
                other => panic!("{other:?}"),
            }
        };
        for (script, becomes) in [
            (
                "jp() { kubectl get cj -o jsonpath=\"$1\"; }\nA=\"$(jp '{.a}')\"",
                "\"$(kubectl get cj -o jsonpath=\"{.a}\")\"",
            ),
            (
                "v() {\n  kubectl get vm a -o jsonpath=\"$1\"\n}\n[ \"$(v {.a})\" = 1 ]",
                "\"$(kubectl get vm a -o jsonpath=\"{.a}\")\" = 1",
            ),
            (
                "g() { kubectl get \"$@\" 2>/dev/null || true; }\nA=$(g pod \"$P\")",
                "$(kubectl get pod \"$P\" 2>/dev/null || true)",
            ),
            (
                "g() { local n=\"$1\"; kubectl get pod \"$n\" -n \"$ns\"; }\nA=$(g \"$P\" | wc -l)",
                "$(kubectl get pod \"${P}\" -n \"$ns\" | wc -l)",
            ),
            // A variable without quotes, if it is one word.
            (
                "c() { k can \"$1\" \"$2\"; }\nfor v in get list; do A; done\nA=$(c $v pods/$v)",
                "$(k can \"${v}\" \"pods/${v}\")",
            ),
            ("c() { k can \"$1\"; }\nv=shop\nA=$(c $v)", "$(k can \"${v}\")"),
            ("c() { k can \"$1\"; }\nv=shop\nread v\nA=$(c $v)", "$(c $v)"),
            ("c() { k can \"$1\"; }\nfor v in 'a b' c; do A; done\nA=$(c $v)", "$(c $v)"),
            ("c() { k can \"$1\"; }\nif x; then v=shop; fi\nA=$(c $v)", "$(c $v)"),
            ("c() { k can \"$1\"; }\nv=shop\n. lib.sh\nA=$(c $v)", "$(c $v)"),
            ("c() { k can \"$1\"; }\nv=a-b\nIFS=-\nA=$(c $v)", "$(c $v)"),
            ("a() { k get \"$1\"; }\nb() { a \"$2\"; }\nA=$(b x \"it's\")", "$(k get \"it's\")"),
            // An argument that is missing, is split, or is used in another way; a function that does more, or is redefined
            // later.
            ("a() { k get \"$2\"; }\nA=$(a x)", "$(a x)"),
            ("a() { k get $1; }\nA=$(a 'x y')", "$(a 'x y')"),
            ("a() { k get \"${1:-x}\"; }\nA=$(a x)", "$(a x)"),
            ("a() { k get \"$#\"; }\nA=$(a x)", "$(a x)"),
            ("a() { k make; k get \"$1\"; }\nA=$(a x)", "$(a x)"),
            ("a() { k get \"$1\"; }\na() { l \"$1\"; }\nA=$(a x)", "$(a x)"),
            ("a() { k get '$1'; }\nA=$(a x)", "$(k get '$1')"),
            ("a() { local n=\"$1\"; k get \"$n\" | awk '{print $n}'; }\nA=$(a x)", "$(k get \"x\" | awk '{print $n}')"),
            ("a() { local n=\"$1\"; k get \"${n:-x}\"; }\nA=$(a x)", "$(a x)"),
            // Options in a variable.
            ("N='-n shop'\nA=$(k get pod $N -o name | wc -l)", "$(k get pod -n shop -o name | wc -l)"),
            ("N='-n shop'\nA=\"$(k get \"$N\" '$N' ${N})\"", "\"$(k get \"$N\" '$N' -n shop)\""),
            ("N='-n shop'\nN='-n x'\nA=$(k get $N)", "$(k get $N)"),
            ("N='-n $X'\nA=$(k get $N)", "$(k get $N)"),
        ] {
            assert_eq!(one(script), becomes, "{script}");
        }
    }
}
