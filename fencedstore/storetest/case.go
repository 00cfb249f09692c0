package storetest

import (
	"context"
	"slices"
)

// Case is one rule of the contract.
type Case struct {
	// Name is the subtest's name. It stays the same in later releases.
	Name string
	// Rule is the sentence of the contract.
	Rule string
	// Run returns nil when the stores of e keep the rule, and otherwise an
	// error that says what was seen. It is [ErrSkip] when e cannot show it.
	Run func(ctx context.Context, e Env) error
}

// Cases returns all cases. They return errors instead of failing a test, so
// that they can be run against stores that are wrong on purpose.
func Cases() []Case {
	return slices.Concat(claimCases(), markCases(), guardCases(), valueCases(), inputCases(),
		errorCases(), reopenCases(), unknownCases(), raceCases(), modelCases())
}
