/* A fence from a majority of N nodes that know nothing of each other.
 *
 * The same protocol as in internal/model, for another checker: ATTEMPTS rounds,
 * each with any proposal from 1 to HIGHEST. A request may be executed at any
 * time after it was sent, any number of times, or never; locks may go at any
 * time and so are left out. LOSSES is how often a node loses its data.
 * EQUAL has nodes accept a number that they have already, which is wrong.
 *
 * make model runs it; by hand:
 *   spin -a -DN=3 propose.pml && cc -O2 -DSAFETY -o pan pan.c && ./pan -E
 */
#ifndef N
#define N 3
#endif
#ifndef MAJORITY
#define MAJORITY (N / 2 + 1)
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 3
#endif
#ifndef HIGHEST
#define HIGHEST ATTEMPTS
#endif
#ifndef LOSSES
#define LOSSES 0
#endif

#ifdef EQUAL
#define ACCEPTS(i, k) (p[i] >= counter[k])
#else
#define ACCEPTS(i, k) (p[i] > counter[k])
#endif
#define HAS(set, i) (((set) >> (i)) & 1)
#define SIZE(set) (HAS(set, 0) + HAS(set, 1) + HAS(set, 2) + HAS(set, 3) + HAS(set, 4))

byte counter[N];         /* of each node */
byte p[ATTEMPTS];        /* what each attempt asks for */
byte accepted[ATTEMPTS]; /* set of nodes that have accepted */
byte before[ATTEMPTS];   /* set of attempts that had a fence when it began */
byte got;                /* set of attempts that have one */
byte begun;
byte losses;

inline any_node(k) {
	if
	:: k = 0
	:: k = 1
	:: k = 2
#if N > 3
	:: k = 3
#endif
#if N > 4
	:: k = 4
#endif
	fi
}

proctype attempt(byte i) {
	byte x;

	select(x : 1 .. HIGHEST);
	atomic { /* they are alike, and so begin in their order */
		begun == i;
		begun++;
		p[i] = x;
		before[i] = got;
		printf("%d asks all nodes for fence %d\n", i, x);
		x = 0
	}
	do
	:: atomic {
		any_node(x);
		if
		:: ACCEPTS(i, x) ->
			counter[x] = p[i];
			accepted[i] = accepted[i] | (1 << x);
			printf("node %d: accepts %d, counter %d\n", x, i, p[i])
		:: else
		fi;
		x = 0
	}
	:: atomic {
		!HAS(got, i) && SIZE(accepted[i]) >= MAJORITY ->
		printf("%d has a majority: fence %d\n", i, p[i]);
		x = 0;
		do
		:: x < ATTEMPTS ->
			assert(!HAS(got, x) || p[x] != p[i]);           /* unique */
			assert(!HAS(before[i], x) || p[x] < p[i]);      /* rising */
			x++
		:: else -> break
		od;
		got = got | (1 << i);
		x = 0
	}
	od
}

active proctype chance() {
	byte x;

	do
	:: atomic {
		losses < LOSSES ->
		any_node(x);
		counter[x] = 0;
		losses++;
		printf("node %d: loses its data\n", x);
		x = 0
	}
	:: losses >= LOSSES -> break
	od
}

init {
	byte i = 0;

	atomic {
		do
		:: i < ATTEMPTS -> run attempt(i); i++
		:: else -> break
		od
	}
}
