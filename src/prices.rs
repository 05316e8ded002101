//! Costs of models: a file of prices per million tokens.

use indexmap::IndexMap;
use schemars::JsonSchema;

use crate::{
    decode::{Leniency, Reader, WRONG_TYPE},
    diagnostic::{Diagnostic, Diagnostics},
    source::FileId,
    yaml::{self, Data, Entry, Node},
};

/// Prices by model. YAML or JSON.
#[derive(Clone, PartialEq, Debug, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Prices {
    /// The currency of costs; gevals does not convert currencies.
    #[serde(default = "usd")]
    pub currency: String,
    /// Prices by `PROVIDER:MODEL`, by model name, or by the name of an agent whose model gevals does not know.
    pub models: IndexMap<String, Price>,
}

/// Prices per million tokens.
#[derive(Clone, Copy, PartialEq, Debug, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Price {
    /// Input tokens.
    #[schemars(range(min = 0))]
    pub input: f64,
    /// Output tokens.
    #[schemars(range(min = 0))]
    pub output: f64,
    /// Input tokens read from a cache; the price of other input by default.
    #[schemars(range(min = 0))]
    pub cached_input: Option<f64>,
}

fn usd() -> String {
    "USD".to_owned()
}

/// Formats an amount for people.
pub fn money(amount: f64) -> String {
    if amount == 0.0 || amount >= 0.01 { format!("{amount:.4}") } else { format!("{amount:.6}") }
}

impl Prices {
    /// Decodes a file of prices; returns `None` if it has any fault.
    pub fn decode(file: FileId, text: &str, out: &mut Diagnostics) -> Option<Self> {
        let tree = yaml::parse(file, text, out).ok()?;
        let mut reader = Reader::new(out, Leniency::Strict);
        let mut fields = reader.fields(tree.root(), "a file of prices")?;
        let currency = fields.take(&mut reader, "currency");
        let currency = currency.map_or_else(|| Some(usd()), |node| Some(reader.string(node, "`currency`")?.value));
        let models = fields.require(&mut reader, "models", tree.root().span().head());
        fields.finish(&mut reader);
        let models = models?;
        if !matches!(models.data(), Data::Map) {
            reader.wrong_type(models, "a mapping from a model to its prices", "`models`");
        }
        let models = models.entries().map(|entry| price(&mut reader, entry)).collect::<Option<_>>();
        let prices = reader.finish(Self { currency: currency?, models: models? });
        prices.value.filter(|_| !out.iter().any(|d| d.strength.is_error()))
    }

    /// Returns the price of the first of these names that has one.
    pub fn of<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Option<Price> {
        let find = |name: &str| {
            let bare = name.split_once(':').map_or(name, |(_, model)| model);
            self.models.get(name).or_else(|| self.models.get(bare)).copied()
        };
        names.into_iter().find_map(find)
    }
}

fn price(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<(String, Price)> {
    let mut fields = reader.fields(entry.value, "the price of a model")?;
    let input = fields.require(reader, "input", entry.key.span());
    let output = fields.require(reader, "output", entry.key.span());
    let cached = fields.take(reader, "cachedInput");
    fields.finish(reader);
    let (input, output) = (input.map(|node| amount(reader, node)), output.map(|node| amount(reader, node)));
    let cached_input = cached.map(|node| amount(reader, node));
    let price = Price { input: input??, output: output??, cached_input: cached_input.flatten() };
    Some((entry.key.text().unwrap_or_default().to_owned(), price))
}

fn amount(reader: &mut Reader<'_>, node: Node<'_>) -> Option<f64> {
    let amount = match node.data() {
        Data::Int(n) => Some(n as f64),
        Data::Float(n) => Some(n),
        _ => None,
    };
    let amount = amount.filter(|n| n.is_finite() && *n >= 0.0);
    if amount.is_none() {
        let found =
            node.text().filter(|text| !text.is_empty()).map_or(node.describe().to_owned(), |t| format!("`{t}`"));
        reader.error(
            Diagnostic::new(
                &WRONG_TYPE,
                crate::decode::place(node),
                format!("a price must be a non-negative number, not {found}"),
            )
            .help("write the price per million tokens, such as `2.5`; `currency` sets the currency"),
        );
    }
    amount
}

impl Price {
    /// Returns the cost of tokens; `input` includes the cached ones.
    pub fn cost(&self, input: u64, output: u64, cached: u64) -> f64 {
        let cached = cached.min(input);
        let fresh = (input - cached) as f64 * self.input + cached as f64 * self.cached_input.unwrap_or(self.input);
        (fresh + output as f64 * self.output) / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Sources;

    fn read(text: &str) -> Result<Prices, Vec<String>> {
        let mut out = Diagnostics::default();
        let prices = Prices::decode(Sources::default().add("prices.yaml", text), text, &mut out);
        prices.ok_or_else(|| out.iter().map(|d| d.message.clone()).collect())
    }

    #[test]
    fn the_cost_of_tokens_is_computed() {
        let prices =
            read("models: {gpt-4o: {input: 2.5, output: 10, cachedInput: 1.25}, free: {input: 0, output: 0}}").unwrap();
        let price = prices.of(["openai:gpt-4o"]).unwrap();
        assert!((price.cost(1_000_000, 100_000, 0) - 3.5).abs() < 1e-9);
        assert!((price.cost(1_000_000, 0, 400_000) - 2.0).abs() < 1e-9);
        assert!(prices.of(["free", "gpt-4o"]).unwrap().cost(5, 5, 9) == 0.0);
        assert_eq!((prices.currency.as_str(), prices.of(["other", ""])), ("USD", None));
    }

    #[test]
    fn invalid_price_files_are_reported() {
        for (text, said) in [
            ("", "a file of prices must be a mapping"),
            ("models: 5", "`models` must be a mapping"),
            ("models: {a: {input: -1, output: 1}}", "a price must be a non-negative number, not `-1`"),
            ("models: {a: {input: .nan, output: 1}}", "a price must be a non-negative number, not `.nan`"),
            ("models: {a: {input: 1, output: \"$2.5\"}}", "a price must be a non-negative number, not `$2.5`"),
            ("models: {a: {input: 1, ouput: 2}}", "unknown key `ouput`"),
            ("models: {a: {input: 1}}", "has no `output`"),
            ("model: {}", "unknown key `model`"),
            ("currency: EUR", "has no `models`"),
            ("currency: [a]\nmodels: {}", "`currency` must be a string"),
            ("models: {}\nmore: 1", "unknown key `more`"),
        ] {
            let faults = read(text).unwrap_err();
            assert!(faults.iter().any(|fault| fault.contains(said)), "{text}: {faults:?}");
        }
        assert!(read("[").is_err());
    }
}
