// Determines the kind of a file from its content, as `gevals` does; the name does not matter.

/** The schema of a text, as a name for `gevals schema`. Undefined if the file belongs to another program. */
export function schemaOf(text: string): string | undefined {
  const kind = /^kind:[ \t]*["']?(\w+)/m.exec(text)?.[1];
  const version = /^apiVersion:[ \t]*["']?([\w./-]+)/m.exec(text)?.[1];
  // Kubernetes manifests have kinds as well.
  if (version !== undefined && !/^(mcp-eval|mcpchecker|gevals)\//.test(version)) return undefined;
  switch (kind) {
    case "Task":
    case "Eval":
    case "Agent":
    case "Oracle":
      return kind.toLowerCase();
    case "McpEvals":
      return "evals";
    case undefined:
      return /^mcpServers:/m.test(text) ? "mcp-config" : undefined;
    default:
      return undefined;
  }
}

/** A pattern that matches one of these names and nothing else, for `gevals run --run`. */
export function exactly(names: string[]): string {
  const escaped = names.map((name) => name.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  return `^(${escaped.join("|")})$`;
}
