//! Agents and judges that cannot start or use deprecated spellings.

use crate::{
    diagnostic::{Diagnostic, Diagnostics, Strength, nearest},
    hir::{AgentRef, Name, Provider},
    lint::EvalView,
    rule,
    ty::endpoint,
};

rule! {
    pub static MODEL_WITHOUT_PROVIDER = "model-without-provider", Hard;
    pub static UNKNOWN_PROVIDER = "unknown-provider", Hard;
    pub static INVALID_ENDPOINT = "invalid-endpoint", Hard;
    pub static DEPRECATED_AGENT = "deprecated-agent", Warning;
    pub static DEPRECATED_JUDGE_ENV = "deprecated-judge-env", Warning;
}

const OLD: [&str; 2] = ["openai-agent", "openai-acp"];

fn is_old(kind: &str) -> bool {
    OLD.contains(&kind.trim_start_matches("builtin."))
}

fn agents<'a>(view: &EvalView<'a>) -> impl Iterator<Item = &'a AgentRef> {
    let eval = view.eval;
    eval.agent.iter().chain(eval.judge.as_ref().and_then(|j| j.agent.as_ref()))
}

/// Every agent type and its model, in the eval and in the agent files.
fn models<'a>(view: &EvalView<'a>) -> Vec<(&'a Name, Option<&'a Name>)> {
    let referred = agents(view).filter(|a| a.kind.value != "file").map(|a| (&a.kind, a.model.as_ref()));
    let judge = view.eval.judge.as_ref().and_then(|j| j.agent.as_ref());
    let files = [(&view.unit.agent, view.eval.agent.as_ref()), (&view.unit.judge, judge)];
    let files = files.into_iter().filter_map(|(file, reference)| {
        let builtin = file.as_ref()?.builtin.as_ref()?;
        Some((builtin.kind.as_ref()?, reference.and_then(|r| r.model.as_ref()).or(builtin.model.as_ref())))
    });
    let mut models: Vec<_> = referred.chain(files).collect();
    // The agent and the judge may be the same file.
    models.dedup_by_key(|(kind, model)| (kind.span, model.map(|m| m.span)));
    models
}

/// `model: gpt-4o` has no provider (`tests/coverage.md` D7).
pub fn provider(view: &EvalView<'_>, out: &mut Diagnostics) {
    for (kind, model) in models(view) {
        let Some(model) = model.filter(|m| !m.value.contains(':')) else { continue };
        let word = kind.value.trim_start_matches("builtin.");
        if word != "llm-agent" && !is_old(word) {
            continue;
        }
        let diagnostic = Diagnostic::new(
            &MODEL_WITHOUT_PROVIDER,
            model.span,
            format!("the model `{}` has no provider", model.value),
        );
        // The notation of other programs.
        if let Some((provider, name)) =
            model.value.split_once('/').filter(|(provider, _)| Provider::of(provider).is_some())
        {
            let written = format!("{provider}:{name}");
            out.push(diagnostic.help(format!("write `{written}`")).fix("add the provider", model.span, written));
            continue;
        }
        out.push(match guess(&model.value).or(is_old(word).then_some("openai")) {
            Some(provider) => {
                let written = format!("{provider}:{}", model.value);
                let diagnostic =
                    diagnostic.help(format!("write `{written}`")).fix("add the provider", model.span, written);
                if is_old(word) { diagnostic.strength(Strength::Warning) } else { diagnostic }
            }
            None => {
                diagnostic.help("write `PROVIDER:MODEL`, for example `openai:gpt-4o` or `anthropic:claude-sonnet-4-5`")
            }
        });
    }
}

/// `model: mistral:large`: the provider is not supported.
pub fn unknown_provider(view: &EvalView<'_>, out: &mut Diagnostics) {
    for (kind, model) in models(view) {
        let word = kind.value.trim_start_matches("builtin.");
        let Some((model, (provider, name))) = model.and_then(|m| Some((m, m.value.split_once(':')?))) else { continue };
        if (word != "llm-agent" && !is_old(word)) || (Provider::of(provider).is_some() && !name.is_empty()) {
            continue;
        }
        let known: Vec<_> = Provider::NAMES.iter().map(|n| format!("`{n}`")).collect();
        let help = format!(
            "known providers: {}; for other servers with the OpenAI protocol, use `openai` and set `OPENAI_BASE_URL`",
            known.join(", ")
        );
        if Provider::of(provider).is_some() {
            let message = format!("`{}` is a provider without a model", model.value);
            out.push(Diagnostic::new(&UNKNOWN_PROVIDER, model.span, message).help("write `PROVIDER:MODEL`"));
            continue;
        }
        let mut diagnostic =
            Diagnostic::new(&UNKNOWN_PROVIDER, model.span, format!("unknown model provider `{provider}`"));
        if let Some(near) = nearest(provider, Provider::NAMES) {
            let written = format!("{near}:{name}");
            diagnostic = diagnostic.here(format!("did you mean `{near}`?")).fix(
                format!("write `{written}`"),
                model.span,
                written,
            );
        }
        out.push(diagnostic.help(help));
    }
}

/// Invalid base URLs of models.
pub fn endpoint(view: &EvalView<'_>, out: &mut Diagnostics) {
    for url in view.unit.agent_files().filter_map(|agent| agent.builtin.as_ref()?.base_url.as_ref()) {
        if let Some(why) = endpoint::fault(url.value.trim()) {
            // Do not print the value: it may contain a password.
            out.push(
                Diagnostic::new(&INVALID_ENDPOINT, url.span, format!("this is not a valid endpoint URL: {why}")).help(
                    "for example, write `http://localhost:8000/v1`; to configure it outside the file, use the provider's variable, such as `OPENAI_BASE_URL`",
                ),
            );
        }
    }
}

/// The provider of a model, if its name shows it.
fn guess(model: &str) -> Option<&'static str> {
    let begins = |words: &[&str]| words.iter().any(|w| model.starts_with(w));
    if begins(&["gpt-", "o1", "o3", "o4", "chatgpt-"]) {
        Some("openai")
    } else if begins(&["claude-"]) {
        Some("anthropic")
    } else if begins(&["gemini-"]) {
        Some("gemini")
    } else {
        None
    }
}

/// Old names of `llm-agent`.
pub fn deprecated(view: &EvalView<'_>, out: &mut Diagnostics) {
    for (kind, model) in models(view) {
        if !is_old(&kind.value) {
            continue;
        }
        let new = if kind.value.starts_with("builtin.") { "builtin.llm-agent" } else { "llm-agent" };
        let mut diagnostic =
            Diagnostic::new(&DEPRECATED_AGENT, kind.span, format!("`{}` is the old name of `{new}`", kind.value))
                .help(format!("write `{new}`; its model also includes the provider: `openai:…`"))
                .fix(format!("write `{new}`"), kind.span, new);
        if let Some(model) = model.filter(|m| !m.value.contains(':')) {
            diagnostic = diagnostic.fix("", model.span, format!("openai:{}", model.value));
        }
        out.push(diagnostic);
    }
}

/// A judge that is configured by the names of three environment variables.
pub fn judge_env(view: &EvalView<'_>, out: &mut Diagnostics) {
    let env = view.eval.judge.as_ref().and_then(|j| j.env.as_ref());
    if let Some(env) = env
        && let Some(first) = [&env.base_url, &env.api_key, &env.model_name].into_iter().flatten().next()
    {
        if let Some(agent) = view.eval.judge.as_ref().and_then(|j| j.agent.as_ref()) {
            out.push(
                Diagnostic::new(&DEPRECATED_JUDGE_ENV, first.span, "`env` has no effect because `ref` is set")
                    .label(agent.span, "this agent is the judge")
                    .help("remove `env`"),
            );
            return;
        }
        out.push(
            Diagnostic::new(&DEPRECATED_JUDGE_ENV, first.span, "configuring a judge by environment variables is deprecated")
                .help("write `ref: {type: builtin.llm-agent, model: PROVIDER:MODEL}`; the base URL and the key come from the provider's variables"),
        );
    }
}
