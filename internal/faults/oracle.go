package faults

import "slices"

// Violation is a broken rule, with the operations that prove it.
type Violation struct {
	Rule     string
	Text     string
	Resource string
	Ops      []*Op
}

// Rule is one thing that must hold.
type Rule struct {
	Name  string
	Says  string
	check func(*scene) []Violation
}

// Rules are all rules of safety, which hold at every instant. Liveness is
// [History.Idle].
func Rules() []Rule { return slices.Clone(rules) }

var rules = []Rule{
	{"fence order", "accepted writes have fences that never fall", (*scene).fenceOrder},
	{"one holder", "one fence has one holder", (*scene).oneHolder},
	{"issued order", "who acquires after somebody has acquired has a newer fence", (*scene).issuedOrder},
	{"stale write", "once a holder has read, nobody older writes", (*scene).staleWrite},
	{"lost update", "who writes has seen what it replaces", (*scene).lostUpdate},
	{"lost write", "what was acknowledged is there, once", (*scene).lostWrite},
	{"false refusal", "what was refused or failed is not there", (*scene).falseRefusal},
	{"old read", "who reads sees what was acknowledged before", (*scene).oldRead},
	{"strange value", "what was read or accepted was written by somebody, and is kept", (*scene).strangeValue},
}

// Judge returns every violation, rule by rule.
func Judge(ops []*Op, account Account) []Violation {
	var found []Violation
	for _, resource := range resourcesOf(ops, account) {
		s := newScene(resource, ops, account[resource])
		for _, r := range rules {
			for _, v := range r.check(s) {
				v.Rule, v.Resource = r.Name, resource
				found = append(found, v)
			}
		}
	}
	return found
}

func resourcesOf(ops []*Op, account Account) []string {
	var names []string
	for _, o := range ops {
		names = append(names, o.Resource)
	}
	for name := range account {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
