Feature: Of several mailers one leads

  Background:
    Given the first mailer leads

  Scenario: Another mailer wants to lead
    When the second mailer wants to lead
    Then it is told that it has to wait
    And the first mailer still leads

  Scenario: The leader resigns
    When the first mailer resigns
    Then the second mailer leads when it asks again

  Scenario: The leader loses its connection
    When the connection of the first mailer is cut
    Then the second mailer leads within 2 seconds

  Scenario: The leader's transaction fails
    When a transaction of the first mailer is rolled back
    Then the first mailer still leads
