/** A page that fails must not take the app with it. */

import { Component, type ReactNode } from "react";

import { messageOf } from "../api/client";
import { Failed } from "../ui/parts";

interface Props {
  /** Another one forgets the failure. */
  place: string;
  children: ReactNode;
}

interface State {
  error: unknown;
  place: string;
}

export class Boundary extends Component<Props, State> {
  override state: State = { error: null, place: this.props.place };

  static getDerivedStateFromError(error: unknown): Partial<State> {
    return { error };
  }

  static getDerivedStateFromProps(props: Props, state: State): State | null {
    return props.place === state.place ? null : { error: null, place: props.place };
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (error === null) return this.props.children;
    return (
      <div className="page">
        <Failed message={`This page cannot be shown: ${messageOf(error)}`} retry={() => window.location.reload()} />
      </div>
    );
  }
}
