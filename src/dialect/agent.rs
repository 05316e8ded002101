//! Agent files (§3.2 of the upstream behaviour).

use std::path::Component;

use crate::{
    decode::{Leniency, Partial, Reader},
    diagnostic::{Diagnostic, Diagnostics},
    hir::{AcpAgent, Agent, AgentSkills, BuiltinAgent, ShellAgent},
    source::FileId,
    yaml::Node,
};

/// Decodes an agent file.
pub fn decode(root: Node<'_>, file: FileId, dir: &std::path::Path, out: &mut Diagnostics) -> Partial<Agent> {
    let mut reader = Reader::new(out, Leniency::Config);
    match agent(&mut reader, root, file, dir) {
        Some(agent) => reader.finish(agent),
        None => Partial { value: None, reported: reader.finish(()).reported },
    }
}

fn agent(reader: &mut Reader<'_>, root: Node<'_>, file: FileId, dir: &std::path::Path) -> Option<Agent> {
    let mut fields = reader.fields(root, "an agent")?;
    super::envelope(&mut fields, reader);
    let mut agent = Agent {
        file,
        dir: dir.to_owned(),
        name: None,
        version: None,
        builtin: None,
        acp: None,
        commands: None,
        isolation: None,
        skills: None,
    };
    if let Some(node) = fields.take(reader, "metadata")
        && let Some(mut meta) = reader.fields(node, "the metadata of an agent file")
    {
        agent.name = meta.take(reader, "name").and_then(|n| reader.string(n, "the name of an agent"));
        agent.version = meta.take(reader, "version").and_then(|n| reader.string(n, "the version of an agent"));
        for carried in ["description", "annotations", "category"] {
            meta.take(reader, carried);
        }
        meta.finish(reader);
    }
    if let Some(node) = fields.take(reader, "builtin")
        && let Some(mut inner) = reader.fields(node, "a built-in agent")
    {
        let mut take = |reader: &mut Reader<'_>, key| inner.take(reader, key).and_then(|n| reader.name(n, key));
        agent.builtin = Some(BuiltinAgent {
            span: node.span(),
            kind: take(reader, "type"),
            model: take(reader, "model"),
            base_url: take(reader, "baseUrl"),
            api_key: take(reader, "apiKey"),
        });
        inner.finish(reader);
    }
    if let Some(node) = fields.take(reader, "acp")
        && let Some(mut inner) = reader.fields(node, "an ACP agent")
    {
        let command = inner.require_entry(
            reader,
            "cmd",
            node.span(),
            Some("add `cmd:` with the program that implements ACP, and `args:` with its arguments"),
        );
        let args = inner.take(reader, "args");
        inner.finish(reader);
        if let Some(command) = command {
            super::command::one_word(reader, command, node, args);
        }
        let command = command.and_then(|e| reader.name(e.value, "the command of an agent"));
        let list = args;
        let args = list.map(|list| reader.arguments(list)).unwrap_or_default();
        if let (Some(command), Some(list)) = (&command, list) {
            super::command::arguments(reader, &command.value, list, &args);
        }
        let args = args.into_iter().filter_map(|n| reader.string(n, "an item of `args`")).collect();
        agent.acp = command.map(|command| AcpAgent { span: node.span(), command, args, dir: dir.to_owned() });
    }
    if let Some(node) = fields.take(reader, "commands")
        && let Some(mut inner) = reader.fields(node, "the commands of an agent")
    {
        let mut take = |reader: &mut Reader<'_>, key| inner.take(reader, key).and_then(|n| reader.string(n, key));
        agent.commands = Some(ShellAgent {
            span: node.span(),
            mcp_server_arg: take(reader, "argTemplateMcpServer"),
            allowed_tool_arg: take(reader, "argTemplateAllowedTools"),
            allowed_tools_separator: take(reader, "allowedToolsJoinSeparator"),
            run_prompt: take(reader, "runPrompt"),
            get_version: take(reader, "getVersion"),
            use_virtual_home: None,
        });
        if let Some(n) = inner.take(reader, "useVirtualHome")
            && let Some(commands) = &mut agent.commands
        {
            commands.use_virtual_home = reader.bool(n, "`useVirtualHome`");
        }
        inner.finish(reader);
    }
    if let Some(node) = fields.take(reader, "isolation") {
        agent.isolation = super::isolation(reader, node);
    }
    if let Some(node) = fields.take(reader, "skills")
        && let Some(mut inner) = reader.fields(node, "the skills of an agent")
    {
        let mount = inner.require(reader, "mountPath", node.span());
        let tool = inner.require(reader, "toolName", node.span());
        inner.finish(reader);
        let mount = mount.and_then(|n| reader.name(n, "`mountPath`"));
        if let Some(mount) = &mount {
            let inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
            if !std::path::Path::new(&mount.value).components().all(inside) {
                let message = format!("`{}` is not a path within the agent's directory", mount.value);
                reader.error(
                    Diagnostic::new(&crate::decode::WRONG_TYPE, mount.span, message)
                        .help("write a relative path without `..`, for example `.my-agent/skills`"),
                );
            }
        }
        agent.skills = Some(AgentSkills {
            span: node.span(),
            mount_path: mount,
            tool_name: tool.and_then(|n| reader.name(n, "`toolName`")),
        });
    }
    fields.finish(reader);
    Some(agent)
}
