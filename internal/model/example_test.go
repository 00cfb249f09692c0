package model_test

import (
	"fmt"

	"github.com/fenced-go/fenced/internal/model"
)

// shortest is a shortest way to break a rule.
func shortest[S comparable](m model.Model[S], rule model.Rule) string {
	r, err := m.Explore(limit, rule)
	if err != nil {
		return err.Error()
	}
	return r.Broken[rule].String()
}

// One INCR per node and the highest of the answers is no fence, with perfect
// locks and without any fault.
func ExampleQuorum_highestOfCounters() {
	fmt.Print(shortest(wrong["the highest of counters"].Model(), model.Rising))
	// Output:
	// 1. A asks all nodes
	// 2. node 1: accepts A, counter 1
	// 3. A gives up
	// 4. B asks all nodes
	// 5. node 2: accepts B, counter 1
	// 6. node 1: the lock of A goes
	// 7. node 1: accepts B, counter 2
	// 8. B has a majority: fence 2
	// 9. C asks all nodes
	// 10. node 3: accepts C, counter 1
	// 11. node 2: the lock of B goes
	// 12. node 2: accepts C, counter 2
	// 13. C has a majority: fence 2  <== not Rising
}

// A node that accepts the number that it has already, instead of a higher one.
func ExampleQuorum_sameNumberTwice() {
	fmt.Print(shortest(wrong["the same number twice"].Model(), model.Rising))
	// Output:
	// 1. A asks all nodes for fence 1
	// 2. node 1: accepts A, counter 1
	// 3. node 2: accepts A, counter 1
	// 4. A has a majority: fence 1
	// 5. B asks all nodes for fence 1
	// 6. node 3: accepts B, counter 1
	// 7. node 1: the lock of A goes
	// 8. node 1: accepts B, counter 1
	// 9. B has a majority: fence 1  <== not Rising
}

// Who is refused by one node and asks that node alone again, with a higher
// number, counts acceptances of different numbers together. Refusal and second
// request are one step here.
func ExampleQuorum_roundsCountedTogether() {
	fmt.Print(shortest(wrong["rounds counted together"].Model(), model.Rising))
	// Output:
	// 1. A asks all nodes for fence 1
	// 2. node 1: accepts A, counter 1
	// 3. A gives up
	// 4. B asks all nodes for fence 1
	// 5. node 2: accepts B, counter 1
	// 6. node 1: the lock of A goes
	// 7. node 1: accepts B, counter 2
	// 8. B has a majority: fence 2
	// 9. C asks all nodes for fence 1
	// 10. node 3: accepts C, counter 1
	// 11. node 2: the lock of B goes
	// 12. node 2: accepts C, counter 2
	// 13. C has a majority: fence 2  <== not Rising
}

// Reading the counters of a majority and writing the highest + 1 back, without a
// condition, when the holder of a lock may be late.
func ExampleQuorum_unconditionalWrites() {
	fmt.Print(shortest(wrong["unconditional writes"].Model(), model.Unique))
	// Output:
	// 1. A asks all nodes
	// 2. node 1: accepts A, counter 0
	// 3. node 2: accepts A, counter 0
	// 4. A has read a majority, and writes 1 to it
	// 5. node 1: accepts A, counter 1
	// 6. B asks all nodes
	// 7. node 3: accepts B, counter 0
	// 8. node 2: the lock of A goes
	// 9. node 2: accepts B, counter 0
	// 10. node 2: accepts A, counter 1
	// 11. A has a majority: fence 1
	// 12. B has read a majority, and writes 1 to it
	// 13. node 2: accepts B, counter 1
	// 14. node 3: accepts B, counter 1
	// 15. B has a majority: fence 1  <== not Unique
}

// What a store cannot refuse when its mark is raised by the first use of a
// fence, and not before.
func ExampleStore_withoutClaims() {
	fmt.Print(shortest(model.Store{Tenures: 3, Losses: 1, Floor: true, Holders: true}.Model(), model.NoStaleWrite))
	// Output:
	// 1. A asks for the lock
	// 2. A gets fence 1
	// 3. B asks for the lock
	// 4. B gets fence 2
	// 5. C asks for the lock
	// 6. Redis loses its data
	// 7. C gets fence 1
	// 8. C reads 0
	// 9. B writes under 2, accepted  <== not NoStaleWrite
}

// What it accepts when it does not tell apart two holders of one fence, which a
// lock that is split in two hands out.
func ExampleStore_withoutHolders() {
	fmt.Print(shortest(model.Store{Tenures: 2, Arbitrary: true, Highest: 1, Claims: true}.Model(), model.NoLostUpdate))
	// Output:
	// 1. A asks for the lock
	// 2. A gets fence 1
	// 3. A claims 1
	// 4. A reads 0
	// 5. B asks for the lock
	// 6. B gets fence 1
	// 7. B claims 1
	// 8. B writes under 1, accepted
	// 9. A writes under 1, accepted  <== not NoLostUpdate
}
