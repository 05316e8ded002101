// What a file is, told by its content as `gevals` tells it: a name says nothing.

/** The schema of a text: what `gevals schema` takes. Undefined where the file is another program's. */
export function schemaOf(text: string): string | undefined {
  const kind = /^kind:[ \t]*["']?(\w+)/m.exec(text)?.[1];
  const version = /^apiVersion:[ \t]*["']?([\w./-]+)/m.exec(text)?.[1];
  // Manifests of Kubernetes have kinds too.
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
