package fenced_test

// sabotage removes one piece that protects: in copies of a file, or of all that a
// pattern matches, a text is replaced wherever it is.
type sabotage struct {
	name string // of the piece
	file string
	text string
	by   string
	// caught lists what must fail then: a test in a package. One is enough to
	// protect the piece; each is shown to.
	caught []catch
}

type catch struct{ pkg, test string }

const (
	lockPkg     = "./fencedlock"
	postgresPkg = "./fencedstore/postgres"
	s3Pkg       = "./fencedstore/s3compat"
	everySQL    = "migrations/*.sql" // later migrations define functions anew
)

// sabotages are the pieces that the promise stands on.
var sabotages = []sabotage{
	{
		name:   "the release compares the holder",
		file:   "fencedlock/release.lua",
		text:   "if string.sub(lock, 1, #ARGV[1] + 1) ~= ARGV[1] .. ':' then return 'taken' end",
		caught: []catch{{lockPkg, "TestLateReleaseDoesNotTouchTheSuccessor"}},
	},
	{
		name:   "the renewal compares the holder",
		file:   "fencedlock/renew.lua",
		text:   "if lock ~= ARGV[1] then return 'taken' end",
		caught: []catch{{lockPkg, "TestScriptsAgreeWithTheModel"}},
	},
	{
		name:   "the renewal never makes the lock again",
		file:   "fencedlock/renew.lua",
		text:   "if not lock then return 'absent' end",
		by:     "if not lock then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 'renewed' end",
		caught: []catch{{lockPkg, "TestScriptsAgreeWithTheModel"}},
	},
	{
		name:   "a fence is above the counter, not level with it",
		file:   "fencedlock/grant.lua",
		text:   "redis.call('INCR', KEYS[2])",
		caught: []catch{{lockPkg, "TestFenceIsExactWhereverTheCounterStands"}},
	},
	{
		name:   "a fence is above the clock",
		file:   "fencedlock/clock.go",
		text:   "return max(int64(i.wall/time.Microsecond), 0) + 1",
		by:     "return 1",
		caught: []catch{{lockPkg, "TestFlushedRedisStillIssuesHigherFences"}},
	},
	{
		name:   "stores claim before Acquire returns",
		file:   "fencedlock/acquire.go",
		text:   "if len(k.terms.stores) > 0 {",
		by:     "if len(k.terms.stores) < 0 {",
		caught: []catch{{lockPkg, "TestEveryStoreHasClaimedWhenAcquireReturns"}},
	},
	{
		name:   "the floor",
		file:   "fencedlock/claim.go",
		text:   "k.ask.least = mark + 1",
		by:     "k.ask.least = 0",
		caught: []catch{{lockPkg, "TestStoreThatKnowsANewerFenceHealsTheLock"}, {".", "TestFloorHealsAfterDataLossWithAClockFarBehind"}},
	},
	{
		name:   "the margin of the lease",
		file:   "fencedlock/clock.go",
		text:   "return ttl/100 + 2*time.Millisecond",
		by:     "return 0 * ttl",
		caught: []catch{{lockPkg, "TestLeaseEndsEarlierHereThanInARedisWhoseClockIsFast"}},
	},
	{
		name:   "a lease counts from before the send",
		file:   "fencedlock/acquire.go",
		text:   "lease{start: sent, ttl: k.terms.ttl}",
		by:     "lease{start: l.now(), ttl: k.terms.ttl}",
		caught: []catch{{lockPkg, "TestLeaseCountsFromBeforeTheSend"}},
	},
	{
		name:   "the worse of two clocks",
		file:   "fencedlock/clock.go",
		text:   "elapsed := max(now.mono-e.start.mono, now.wall-e.start.wall)",
		by:     "elapsed := now.mono - e.start.mono",
		caught: []catch{{lockPkg, "TestTheFurtherClockCounts"}},
	},
	{
		name:   "the first lease is short",
		file:   "fencedlock/grant.lua",
		text:   "if tonumber(ttl) > 500 then ttl = '500' end",
		caught: []catch{{lockPkg, "TestGrantToAWaiterIsAFirstLease"}},
	},
	{
		name:   "what may have been acquired is given back",
		file:   "fencedlock/acquire.go",
		text:   "if k.ran && !l.abandon(k) {",
		by:     "if k.ran && false {",
		caught: []catch{{lockPkg, "TestAcquireWhoseReplyNeverComesLeavesNothingLocked"}},
	},

	{
		name:   "a majority, and not fewer",
		file:   "fencedlock/quorumoptions.go",
		text:   "return (n + lossy + 2) / 2 }",
		by:     "return (n + lossy) / 2 }",
		caught: []catch{{lockPkg, "TestTwoMinoritiesHoldNothing"}},
	},
	{
		name:   "a node refuses what is not above its counter",
		file:   "fencedlock/propose.lua",
		text:   "if counter and not below(counter, ARGV[4]) then return 'behind ' .. counter end",
		caught: []catch{{lockPkg, "TestNodeScriptsAgreeWithTheModel"}},
	},
	{
		name:   "a node that has restarted does not vote at once",
		file:   "fencedlock/quorumoptions.go",
		text:   "return max(o.TTL, callTimeout) + 2*maxClockOff",
		by:     "return 0 * maxClockOff",
		caught: []catch{{lockPkg, "TestRestartedNodesDoNotVoteAtOnce"}},
	},

	{
		name:   "Postgres tells holders of one fence apart",
		file:   everySQL,
		text:   "OR (f.fence_id = EXCLUDED.fence_id AND f.holder = EXCLUDED.holder)",
		by:     "OR f.fence_id = EXCLUDED.fence_id",
		caught: []catch{{postgresPkg, "TestRepeatedFencesAreToldApart"}},
	},
	{
		name:   "Postgres compares strictly when it claims",
		file:   everySQL,
		text:   "WHERE f.fence_id < EXCLUDED.fence_id",
		by:     "WHERE f.fence_id <= EXCLUDED.fence_id",
		caught: []catch{{postgresPkg, "TestRepeatedFencesAreToldApart"}},
	},
	{
		name:   "Postgres compares the fence of a write",
		file:   everySQL,
		text:   "WHERE resource = p_resource AND fence_id = p_fence AND holder = v_hash",
		by:     "WHERE resource = p_resource",
		caught: []catch{{postgresPkg, "TestGuardTellsWhyItRefuses"}, {".", "TestFaultsOnOneRedisAndPostgres"}},
	},
	{
		name:   "the guard's lock",
		file:   everySQL,
		text:   "IF pg_advisory_xact_lock_shared(1179538243, hashtext(p_resource)) IS NULL THEN END IF;",
		caught: []catch{{postgresPkg, "TestClaimWaitsForOlderTransactionsToEnd"}, {".", "TestFaultsOnOneRedisAndPostgres"}},
	},
	{
		name:   "the claim's lock",
		file:   everySQL,
		text:   "IF pg_advisory_xact_lock(1179538243, hashtext(p_resource)) IS NULL THEN END IF;",
		caught: []catch{{postgresPkg, "TestClaimWaitsForOlderTransactionsToEnd"}},
	},
	{
		name:   "a paused transaction is ended",
		file:   everySQL,
		text:   "ELSIF set_config('idle_in_transaction_session_timeout',\n                   least(greatest(p_left_ms, 1), 2147483647)::text, true) IS NULL THEN\n",
		caught: []catch{{postgresPkg, "TestPausedHolderIsEndedByTheServer"}},
	},
	{
		name:   "a claim survives a crash",
		file:   everySQL,
		text:   "PERFORM set_config('synchronous_commit', 'on', true);",
		by:     "NULL;",
		caught: []catch{{postgresPkg, "TestClaimSurvivesACrashWithSynchronousCommitOff"}},
	},
	{
		name:   "a mark that is forgotten leaves a floor",
		file:   everySQL,
		text:   "IF p_fence <= (SELECT fence_id FROM fencedstore.floor) THEN",
		by:     "IF false THEN",
		caught: []catch{{postgresPkg, "TestForgottenResourceStillRefusesItsOlderHolders"}},
	},
	{
		name:   "a trigger compares the fence that is shown",
		file:   everySQL,
		text:   "AND fence_id::text = split_part(p_shown, ':', 1)\n        AND holder = sha256(decode(split_part(p_shown, ':', 2), 'hex'))",
		caught: []catch{{postgresPkg, "TestShownFenceCannotBeForged"}},
	},
	{
		name:   "an answer that did not arrive is no failure",
		file:   "fencedstore/postgres/errors.go",
		text:   "return &fencedstore.UnknownOutcomeError{Op: op, Fence: f, Err: withCause(ctx, err)}",
		by:     "return failed(ctx, op, f, err)",
		caught: []catch{{postgresPkg, "TestCallWhoseAnswerIsLostHasAnUnknownOutcome"}},
	},

	{
		name:   "S3 writes on condition",
		file:   "fencedstore/s3compat/register.go",
		text:   "in.IfMatch = aws.String(s.quote(etag))",
		by:     "_ = s.quote(etag)",
		caught: []catch{{s3Pkg, "TestConditionsOnTheWire"}},
	},
	{
		name:   "the claim writes before the holder reads",
		file:   "fencedstore/s3compat/claim.go",
		text:   "st, err = s.swap(ctx, op, f, st, st.env.next(f, s.now()))\n",
		by:     "st.env = st.env.next(f, s.now())\n",
		caught: []catch{{s3Pkg, "TestWriteInFlightDuringAClaim"}},
	},
	{
		name:   "the write's ID in the register",
		file:   "fencedstore/s3compat/settle.go",
		text:   "case write == a.next.Write:\n",
		by:     "case write == \"\":\n",
		caught: []catch{{s3Pkg, "TestWriteThatLandedBeforeANewerClaimIsReportedAsDone"}},
	},
	{
		name:   "a write whose reply was lost is sent again until the register has moved",
		file:   "fencedstore/s3compat/settle.go",
		text:   "case ambiguous:\n\t\ta.open = true\n",
		by:     "case ambiguous:\n\t\treturn state{}, true, a.err\n",
		caught: []catch{{s3Pkg, "TestLostAndAmbiguousRepliesAreSettled"}},
	},
	{
		name:   "a commit that lost looks who came first",
		file:   "fencedstore/s3compat/commit.go",
		text:   "st, err = s.ready(ctx, f, st)\n\t\t}\n",
		by:     "st, err = s.load(ctx, f.Resource, st)\n\t\t}\n",
		caught: []catch{{s3Pkg, "TestWriteInFlightDuringAClaim"}},
	},
	{
		name:   "the probe of a store that is opened",
		file:   "fencedstore/s3compat/store.go",
		text:   "if err := s.probe(ctx); err != nil {",
		by:     "if err := error(nil); err != nil {",
		caught: []catch{{s3Pkg, "TestOpenRefusesStoresThatCannotFence"}},
	},
}
