/** Markdown of an answer, piece by piece; see `splitBlocks`. HTML in it is shown as text. */

import { memo } from "react";
import ReactMarkdown, { type Components } from "react-markdown";
import remarkGfm from "remark-gfm";

import { splitBlocks } from "../lib/blocks";
import { CodeBlock } from "./CodeBlock";

const PLUGINS = [remarkGfm];

interface CodeNode {
  children?: { tagName?: string; properties?: { className?: unknown }; children?: { value?: string }[] }[];
}

function Block({ node, settled }: { node: CodeNode | undefined; settled: boolean }) {
  const code = node?.children?.[0];
  const classes = Array.isArray(code?.properties?.className) ? code.properties.className : [];
  const language = classes.map(String).find((name) => name.startsWith("language-"))?.slice(9) ?? "";
  const text = (code?.children ?? []).map((child) => child.value ?? "").join("");
  return <CodeBlock code={text.replace(/\n$/, "")} language={language.toLowerCase()} settled={settled} />;
}

function components(settled: boolean): Components {
  return {
    pre: ({ node }) => <Block node={node as CodeNode | undefined} settled={settled} />,
    a: ({ href, children }) => (
      <a href={href} target="_blank" rel="noopener noreferrer">
        {children}
      </a>
    ),
    // Nothing is fetched from elsewhere, so a picture is a link to it.
    img: ({ src, alt }) => (
      <a href={typeof src === "string" ? src : undefined} target="_blank" rel="noopener noreferrer">
        {alt || "image"}
      </a>
    ),
    table: ({ children }) => (
      <div className="table-scroll" tabIndex={0} role="group" aria-label="Table">
        <table>{children}</table>
      </div>
    ),
  };
}

const SETTLED = components(true);
const GROWING = components(false);

const Piece = memo(function Piece({ text, settled }: { text: string; settled: boolean }) {
  return (
    <ReactMarkdown remarkPlugins={PLUGINS} components={settled ? SETTLED : GROWING}>
      {text}
    </ReactMarkdown>
  );
});

/** `growing`: the last piece is still being written. */
export const Markdown = memo(function Markdown(props: { text: string; growing?: boolean }) {
  const blocks = splitBlocks(props.text);
  return (
    <div className="markdown">
      {blocks.map((block, i) => (
        <Piece key={i} text={block} settled={!props.growing || i < blocks.length - 1} />
      ))}
    </div>
  );
});
