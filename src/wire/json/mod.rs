//! JSON as the peers write it: number text kept, lone surrogates allowed, canonical forms.
