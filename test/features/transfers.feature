Feature: A transfer between accounts in DynamoDB is made once
  The accounts are kept beside the keys, not in PostgreSQL. The transfer and
  its key must be written together.

  Background:
    Given an account of Anna with 100 euros and an account of Ben with 0 euros

  Scenario: A transfer and its key are written together
    When a transfer of 30 euros from Anna to Ben is ordered
    Then the transfer is confirmed
    And Anna has 70 euros and Ben has 30 euros

  Scenario: A transfer that is ordered again is confirmed again, and not made again
    Given a transfer of 30 euros from Anna to Ben has been made
    When the same transfer is ordered again
    Then the transfer is confirmed
    And Anna has 70 euros and Ben has 30 euros

  Scenario: A transfer that cannot be made is not remembered as made
    Given a transfer of 300 euros from Anna to Ben was refused
    Then Anna has 100 euros and Ben has 0 euros
    When Anna is given 250 euros
    And the same transfer is ordered again
    Then the transfer is confirmed
    And Anna has 50 euros and Ben has 300 euros

  Scenario: The confirmation is lost on the way
    Given the answer to the next transfer will be lost
    When a transfer of 30 euros from Anna to Ben is ordered
    Then the transfer is confirmed
    And Anna has 70 euros and Ben has 30 euros

  Scenario: The same transfer is ordered three times at once
    When a transfer of 30 euros from Anna to Ben is ordered 3 times at the same time
    And the same transfer is ordered again
    Then the transfer is confirmed
    And Anna has 70 euros and Ben has 30 euros
