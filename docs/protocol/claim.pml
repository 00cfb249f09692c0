/* The store decides: TENURES of one resource, any number of them at once, and a
 * lock that hands out any fence from 1 to HIGHEST to anybody.
 *
 * Each claims its fence, which raises the mark of the store, in a step of its
 * own; then it reads, if it likes, and writes once. FIRST_USE raises the mark by
 * the first read or write instead; ONE_HOLDER does not tell apart two holders of
 * one fence. Both are wrong.
 *
 * make model runs it; by hand:
 *   spin -a claim.pml && cc -O2 -DSAFETY -o pan pan.c && ./pan -E
 */
#ifndef TENURES
#define TENURES 4
#endif
#ifndef HIGHEST
#define HIGHEST TENURES
#endif

#define HAS(set, i) (((set) >> (i)) & 1)
#ifdef ONE_HOLDER
#define SAME(i) (fence[i] == mark)
#else
#define SAME(i) (fence[i] == mark && holder == i)
#endif
#ifdef FIRST_USE
#define GUARDED(i) (fence[i] > mark || SAME(i))
#else
#define GUARDED(i) SAME(i)
#endif

byte mark, holder;    /* the newest fence that the store knows, and whose it is */
byte value;           /* how often it was written */
byte fence[TENURES];
byte before[TENURES]; /* set of tenures that had been handed out when it was asked for */
byte got;             /* set of tenures that were handed out */
byte worked;          /* set of those that have read or written */
byte begun;

proctype tenure(byte i) {
	byte x;
	byte seen;
	bool has_read;

	select(x : 1 .. HIGHEST);
	atomic { /* they are alike, and so begin in their order */
		begun == i;
		begun++;
		before[i] = got;
		fence[i] = x;
		printf("%d asks for the lock, and will get fence %d\n", i, x);
		x = 0
	}
	atomic {
#ifndef FIRST_USE
		if
		:: fence[i] > mark || SAME(i) -> mark = fence[i]; holder = i; printf("%d claims %d\n", i, fence[i])
		:: else -> goto out
		fi;
#endif
		got = got | (1 << i)
	}
	if
	:: skip
	:: atomic {
		GUARDED(i) ->
		mark = fence[i];
		holder = i;
		seen = value;
		has_read = true;
		worked = worked | (1 << i);
		printf("%d reads %d\n", i, value)
	}
	:: !GUARDED(i) -> goto out
	fi;
	atomic {
		if
		:: GUARDED(i) -> mark = fence[i]; holder = i
		:: else -> goto out
		fi;
		printf("%d writes, accepted\n", i);
		x = 0;
		do
		:: x < TENURES ->
			assert(!HAS(worked, x) || !HAS(before[x], i)); /* no stale write */
			x++
		:: else -> break
		od;
		assert(!has_read || seen == value);                    /* no lost update */
		value++;
		worked = worked | (1 << i)
	}
out:
	skip
}

init {
	byte i = 0;

	atomic {
		do
		:: i < TENURES -> run tenure(i); i++
		:: else -> break
		od
	}
}
