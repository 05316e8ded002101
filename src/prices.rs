//! What models cost: a file of prices for a million tokens.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;

/// Prices by model. YAML or JSON.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Prices {
    /// What costs are counted in; they are not converted.
    #[serde(default = "usd")]
    pub currency: String,
    /// By `PROVIDER:MODEL`, by the model alone, or by the name of an agent that has no model here.
    pub models: IndexMap<String, Price>,
}

/// For a million tokens.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Price {
    #[schemars(range(min = 0))]
    pub input: f64,
    #[schemars(range(min = 0))]
    pub output: f64,
    /// Of input that was read from a cache; by default as other input.
    #[schemars(range(min = 0))]
    pub cached_input: Option<f64>,
}

fn usd() -> String {
    "USD".to_owned()
}

/// An amount, for people.
pub fn money(amount: f64) -> String {
    if amount == 0.0 || amount >= 0.01 { format!("{amount:.4}") } else { format!("{amount:.6}") }
}

impl Prices {
    /// Reads a file of prices.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Self, String> {
        let prices: Self = serde_yaml::from_str(text).map_err(|e| format!("it is no file of prices: {e}"))?;
        for (model, price) in &prices.models {
            let all = [price.input, price.output, price.cached_input.unwrap_or_default()];
            if let Some(bad) = all.iter().find(|n| !n.is_finite() || **n < 0.0) {
                return Err(format!("`{model}` cannot cost {bad}"));
            }
        }
        Ok(prices)
    }

    /// The price of the first of these names that has one.
    pub fn of<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Option<Price> {
        let find = |name: &str| {
            let bare = name.split_once(':').map_or(name, |(_, model)| model);
            self.models.get(name).or_else(|| self.models.get(bare)).copied()
        };
        names.into_iter().find_map(find)
    }
}

impl Price {
    /// What tokens cost; those from a cache are among the input.
    pub fn cost(&self, input: u64, output: u64, cached: u64) -> f64 {
        let cached = cached.min(input);
        let fresh = (input - cached) as f64 * self.input + cached as f64 * self.cached_input.unwrap_or(self.input);
        (fresh + output as f64 * self.output) / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tokens_cost() {
        let prices =
            Prices::read("models: {gpt-4o: {input: 2.5, output: 10, cachedInput: 1.25}, free: {input: 0, output: 0}}");
        let prices = prices.unwrap();
        let price = prices.of(["openai:gpt-4o"]).unwrap();
        assert!((price.cost(1_000_000, 100_000, 0) - 3.5).abs() < 1e-9);
        assert!((price.cost(1_000_000, 0, 400_000) - 2.0).abs() < 1e-9);
        assert!(prices.of(["free", "gpt-4o"]).unwrap().cost(5, 5, 9) == 0.0);
        assert_eq!((prices.currency.as_str(), prices.of(["other", ""])), ("USD", None));
        for bad in [
            "",
            "models: 5",
            "models: {a: {input: -1, output: 1}}",
            "models: {a: {input: .nan, output: 1}}",
            "model: {}",
            "models: {a: {input: 1}}",
            "[",
        ] {
            assert!(Prices::read(bad).is_err(), "{bad}");
        }
    }
}
