// Provides schemas by file content to Red Hat's YAML extension, if it is installed: it requests the schema of each file.
import * as vscode from "vscode";
import { schemaOf } from "./kinds";
import { run } from "./program";

const SCHEME = "gevals-schema";

interface YamlExtension {
  registerContributor(
    schema: string,
    requestSchema: (resource: string) => string | undefined,
    requestSchemaContent: (uri: string) => Promise<string>,
  ): boolean;
}

export async function associateSchemas(program: () => string): Promise<void> {
  const extension = vscode.extensions.getExtension<YamlExtension>("redhat.vscode-yaml");
  const api = await extension?.activate();
  api?.registerContributor(
    SCHEME,
    (resource) => {
      const document = vscode.workspace.textDocuments.find((document) => document.uri.toString() === resource);
      const schema = document && schemaOf(document.getText());
      return schema && `${SCHEME}://schema/${schema}`;
    },
    async (uri) => {
      const name = vscode.Uri.parse(uri).path.slice(1);
      return (await run(program(), ["schema", name], process.cwd())).stdout;
    },
  );
}
