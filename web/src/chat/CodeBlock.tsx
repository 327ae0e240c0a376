/** A block of code: its language, a button to copy it, and colours once they are loaded. */

import { toJsxRuntime } from "hast-util-to-jsx-runtime";
import { type ReactNode, memo, useEffect, useState } from "react";
import { Fragment, jsx, jsxs } from "react/jsx-runtime";

import { CopyButton } from "../ui/parts";

/** Longer code stays plain: colouring it would hold up the page. */
const MOST_CHARACTERS = 40_000;

export const CodeBlock = memo(function CodeBlock(props: { code: string; language: string; settled: boolean }) {
  const { code, language, settled } = props;
  const [coloured, setColoured] = useState<{ code: string; node: ReactNode } | null>(null);
  useEffect(() => {
    if (!settled || language === "" || code.length > MOST_CHARACTERS) return undefined;
    let wanted = true;
    void import("./highlight").then(({ highlight }) => {
      const tree = highlight(code, language);
      if (!wanted || tree === null) return;
      setColoured({ code, node: toJsxRuntime(tree, { Fragment, jsx, jsxs }) });
    });
    return () => {
      wanted = false;
    };
  }, [code, language, settled]);
  return (
    <div className="code-block">
      <div className="code-head">
        <span>{language || "code"}</span>
        <CopyButton text={code} label="Copy code" />
      </div>
      <pre tabIndex={0}>
        <code>{coloured?.code === code ? coloured.node : code}</code>
      </pre>
    </div>
  );
});
