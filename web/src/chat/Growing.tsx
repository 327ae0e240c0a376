/** A text field that grows with its text. Enter sends, Shift+Enter begins a line. */

import { type Ref, useLayoutEffect, useRef } from "react";

interface Props {
  label: string;
  value: string;
  onChange: (value: string) => void;
  onEnter: () => void;
  onEscape?: () => void;
  placeholder?: string;
  autoFocus?: boolean;
  inputRef?: Ref<HTMLTextAreaElement>;
}

const MOST_PX = 240;

export function Growing(props: Props) {
  const own = useRef<HTMLTextAreaElement | null>(null);
  useLayoutEffect(() => {
    const area = own.current;
    if (area === null) return;
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight, MOST_PX)}px`;
  }, [props.value]);
  useLayoutEffect(() => {
    const area = own.current;
    if (props.autoFocus && area !== null) {
      area.focus();
      area.setSelectionRange(area.value.length, area.value.length);
    }
  }, [props.autoFocus]);
  return (
    <textarea
      ref={(area) => {
        own.current = area;
        const { inputRef } = props;
        if (typeof inputRef === "function") inputRef(area);
        else if (inputRef) inputRef.current = area;
      }}
      rows={1}
      aria-label={props.label}
      placeholder={props.placeholder}
      value={props.value}
      onChange={(event) => props.onChange(event.target.value)}
      onKeyDown={(event) => {
        if (event.nativeEvent.isComposing) return;
        if (event.key === "Enter" && !event.shiftKey) {
          event.preventDefault();
          props.onEnter();
        }
        if (event.key === "Escape" && props.onEscape) {
          event.preventDefault();
          props.onEscape();
        }
      }}
    />
  );
}
